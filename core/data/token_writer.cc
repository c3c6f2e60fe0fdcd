#include "core/data/token_writer.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/data/llmc_format.h"
#include "core/status.h"

namespace tessera {
namespace {

void PutLittleEndian(uint32_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

}  // namespace

TokenWriter::TokenWriter(std::string path, AtomicFile file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<TokenWriter> TokenWriter::Create(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TESSERA_RETURN_IF_ERROR(file.Append(std::string(llmc::kHeaderBytes, '\0')));
  return TokenWriter(path, std::move(file));
}

absl::Status TokenWriter::Append(absl::Span<const int32_t> tokens) {
  std::string bytes;
  bytes.reserve(tokens.size() * sizeof(uint16_t));
  for (const int32_t token : tokens) {
    if (token < 0 || token > std::numeric_limits<uint16_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": token ", token, " does not fit; a uint16 token file holds 0 to 65535"));
    }
    PutLittleEndian(static_cast<uint32_t>(token), sizeof(uint16_t), bytes);
  }
  tokens_ += static_cast<int64_t>(tokens.size());
  if (tokens_ > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_,
                     ": more than 2147483647 tokens, which an llm.c token file cannot "
                     "count; write several files"));
  }
  return file_.Append(bytes);
}

absl::Status TokenWriter::Close() {
  std::string header;
  PutLittleEndian(llmc::kTokens16Magic, sizeof(int32_t), header);
  PutLittleEndian(llmc::kTokens16Version, sizeof(int32_t), header);
  PutLittleEndian(static_cast<uint32_t>(tokens_), sizeof(int32_t), header);
  TESSERA_RETURN_IF_ERROR(file_.Overwrite(0, header));
  return file_.Commit();
}

absl::Status WriteTokenFile(const std::string& path, absl::Span<const int32_t> tokens) {
  TESSERA_ASSIGN_OR_RETURN(TokenWriter writer, TokenWriter::Create(path));
  TESSERA_RETURN_IF_ERROR(writer.Append(tokens));
  return writer.Close();
}

}  // namespace tessera
