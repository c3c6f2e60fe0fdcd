#include "core/data/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "core/data/llmc_format.h"
#include "core/status.h"

namespace tessera {
namespace {

const char* KindOf(int64_t magic) {
  switch (magic) {
    case 20240326:
      return "a model of llm.c";
    case 20240327:
      return "a debugging state of llm.c";
    case 20240328:
      return "a tokenizer of llm.c";
    case 20240522:
      return "a multiple-choice evaluation of llm.c";
    case 20240527:
      return "a training state of llm.c";
    default:
      return "an unknown kind of llm.c file";
  }
}

int32_t HeaderWord(const std::byte* data, int64_t index) {
  int32_t word = 0;
  std::memcpy(&word, data + index * sizeof(word), sizeof(word));
  return word;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenFile>> TokenFile::Open(const std::string& path,
                                                           int64_t vocabulary) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return FileError(path, "cannot open the token file", errno);
  std::unique_ptr<TokenFile> file(new TokenFile(path, vocabulary, descriptor));
  TESSERA_RETURN_IF_ERROR(file->Map());
  return file;
}

TokenFile::TokenFile(std::string path, int64_t vocabulary, int descriptor)
    : path_(std::move(path)), vocabulary_(vocabulary), descriptor_(descriptor) {}

TokenFile::~TokenFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), static_cast<size_t>(size_));
  close(descriptor_);
}

absl::Status TokenFile::Map() {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) return FileError(path_, "cannot inspect", errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": not a regular file; expected a token file"));
  }
  size_ = status.st_size;
  modified_ = status.st_mtim;
  if (size_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": empty; expected a token file"));
  }
  void* data = mmap(nullptr, static_cast<size_t>(size_), PROT_READ, MAP_SHARED, descriptor_, 0);
  if (data == MAP_FAILED) return FileError(path_, "cannot map into memory", errno);
  data_ = static_cast<const std::byte*>(data);

  const int64_t magic = size_ < 4 ? 0 : HeaderWord(data_, 0);
  if (magic >= llmc::kFirstMagic && magic <= llmc::kLastMagic) return ReadHeader(magic);
  if (size_ % token_bytes_ != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", size_,
                     " bytes and no llm.c header at offset 0; uint16 tokens take an even number of "
                     "bytes: the file is cut short, or is not a token file"));
  }
  tokens_ = size_ / token_bytes_;
  return absl::OkStatus();
}

absl::Status TokenFile::ReadHeader(int64_t magic) {
  const bool wide = magic == llmc::kTokens32Magic;
  if (!wide && magic != llmc::kTokens16Magic) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": offset 0: magic number ", magic, " is ", KindOf(magic), "; expected ",
        llmc::kTokens16Magic, " (uint16 tokens) or ", llmc::kTokens32Magic, " (uint32 tokens)"));
  }
  if (size_ < llmc::kHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", size_, " bytes, but the llm.c header alone takes ",
                     llmc::kHeaderBytes, "; the file is cut short: make it again"));
  }
  const int32_t version = HeaderWord(data_, 1);
  const int32_t expected_version = wide ? llmc::kTokens32Version : llmc::kTokens16Version;
  if (version != expected_version) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": offset 4: version ", version, " of the llm.c token format ", magic,
                     "; expected ", expected_version, ": convert the file, or make it again"));
  }
  const int64_t tokens = HeaderWord(data_, 2);
  if (tokens < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": offset 8: ", tokens,
                                                   " tokens; expected 0 or more: the header is "
                                                   "damaged, make the file again"));
  }
  header_bytes_ = llmc::kHeaderBytes;
  token_bytes_ = wide ? 4 : 2;
  tokens_ = tokens;
  const int64_t expected_size = header_bytes_ + tokens_ * token_bytes_;
  if (size_ != expected_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": ", size_, " bytes, but the header (offset 8) says ", tokens_, " tokens of ",
        token_bytes_, " bytes; expected ", expected_size, " bytes: the file is ",
        size_ < expected_size ? "cut short" : "too long", ", make it again"));
  }
  return absl::OkStatus();
}

absl::Status TokenFile::CheckUnchanged() const {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0) return FileError(path_, "cannot inspect", errno);
  if (status.st_size != size_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": changed size while in use, from ", size_, " to ", status.st_size,
                     " bytes; leave data files alone during a run"));
  }
  if (status.st_mtim.tv_sec != modified_.tv_sec || status.st_mtim.tv_nsec != modified_.tv_nsec) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": modified while in use; leave data files alone during a run"));
  }
  return absl::OkStatus();
}

template <typename Token>
absl::Status TokenFile::CopyTokens(int64_t first, absl::Span<int32_t> out) const {
  const std::byte* source = data_ + header_bytes_ + first * token_bytes_;
  for (size_t i = 0; i < out.size(); ++i) {
    Token token = 0;
    std::memcpy(&token, source + i * sizeof(Token), sizeof(Token));
    if (token >= vocabulary_) [[unlikely]] {
      const int64_t index = first + static_cast<int64_t>(i);
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": offset ", header_bytes_ + index * token_bytes_, ": token number ",
                       index, " is ", token, "; expected less than the vocabulary of ", vocabulary_,
                       ": raise model.vocabulary, or use data of the model's own tokenizer"));
    }
    out[i] = static_cast<int32_t>(token);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenFile::Identity() const {
  TESSERA_RETURN_IF_ERROR(CheckUnchanged());
  constexpr int64_t kSamples = 64;
  constexpr int64_t kSample = int64_t{64} << 10;
  ChunkChecksums checksums;
  const int64_t bytes = tokens_ * token_bytes_;
  const auto* const data = reinterpret_cast<const char*>(data_ + header_bytes_);
  for (int64_t sample = 0; sample < kSamples; ++sample) {
    const int64_t begin = bytes / kSamples * sample;
    const int64_t size = std::min(kSample, bytes - begin);
    checksums.Append({data + begin, static_cast<size_t>(size)});
  }
  std::string text = absl::StrCat(tokens_, " tokens, checksum ");
  uint64_t all = 0;
  for (const uint64_t checksum : checksums.Finish()) all = all * 31 + checksum;
  return text + ChecksumText(all);
}

absl::Status TokenFile::Read(int64_t first, absl::Span<int32_t> out) const {
  TESSERA_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens_,
                absl::StrCat("tokens ", first, " + ", out.size(), " of ", tokens_));
  TESSERA_RETURN_IF_ERROR(CheckUnchanged());
  return token_bytes_ == 2 ? CopyTokens<uint16_t>(first, out) : CopyTokens<uint32_t>(first, out);
}

}  // namespace tessera
