#ifndef TESSERA_CORE_DATA_TOKEN_WRITER_H_
#define TESSERA_CORE_DATA_TOKEN_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/atomic_file.h"

namespace tessera {

// Writes a token file in llm.c's uint16 format, piece by piece. The file appears
// under its name at Close, and never without it. Not thread-safe.
class TokenWriter {
 public:
  static absl::StatusOr<TokenWriter> Create(const std::string& path);

  // Tokens must lie in [0, 65535]; at most 2^31 - 1 of them fit into a file.
  absl::Status Append(absl::Span<const int32_t> tokens);
  absl::Status Close();

 private:
  TokenWriter(std::string path, AtomicFile file);

  std::string path_;
  AtomicFile file_;
  int64_t tokens_ = 0;
};

absl::Status WriteTokenFile(const std::string& path, absl::Span<const int32_t> tokens);

}  // namespace tessera

#endif  // TESSERA_CORE_DATA_TOKEN_WRITER_H_
