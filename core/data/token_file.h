#ifndef TESSERA_CORE_DATA_TOKEN_FILE_H_
#define TESSERA_CORE_DATA_TOKEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tessera {

// A memory-mapped file of tokens. The format is told by the first four bytes:
//   llm.c, version 1: int32 header[256] = {20240520, 1, tokens, ...}, then uint16 tokens
//   llm.c, version 7: the same with {20240801, 7, tokens, ...} and uint32 tokens
//   nanoGPT: uint16 tokens alone
// (little-endian). A headerless file never looks like an llm.c one if its tokens
// are GPT-2's: read that way, each of llm.c's magic numbers starts with a token
// above 50256.
class TokenFile {
 public:
  // Checks everything but the tokens. Errors name the path, the offset, what is
  // there and what should be.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(const std::string& path,
                                                         int64_t vocabulary);
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;
  ~TokenFile();

  const std::string& path() const { return path_; }
  int64_t tokens() const { return tokens_; }

  // Tells data sets apart: the number of tokens, and a checksum of a few megabytes of
  // them, spread over the file. The errors of Read.
  absl::StatusOr<std::string> Identity() const;

  // Copies tokens [first, first + out.size()), a range inside the file, and checks
  // that each is below the vocabulary. Thread-safe.
  // A file that was changed since Open is an error, found before it is touched. (A
  // file that is cut short in the microseconds between the two still raises SIGBUS:
  // the price of mapping it.)
  absl::Status Read(int64_t first, absl::Span<int32_t> out) const;

 private:
  TokenFile(std::string path, int64_t vocabulary, int descriptor);
  absl::Status Map();
  absl::Status ReadHeader(int64_t magic);
  absl::Status CheckUnchanged() const;
  template <typename Token>
  absl::Status CopyTokens(int64_t first, absl::Span<int32_t> out) const;

  const std::string path_;
  const int64_t vocabulary_;
  const int descriptor_;
  int64_t size_ = 0;
  timespec modified_ = {};
  const std::byte* data_ = nullptr;
  int64_t header_bytes_ = 0;
  int64_t token_bytes_ = 2;
  int64_t tokens_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_DATA_TOKEN_FILE_H_
