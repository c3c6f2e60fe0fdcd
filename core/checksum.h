#ifndef TESSERA_CORE_CHECKSUM_H_
#define TESSERA_CORE_CHECKSUM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tessera {

// XXH3, 64 bits, of some bytes; and as 16 hexadecimal digits.
uint64_t Checksum(absl::string_view bytes);
std::string ChecksumText(uint64_t checksum);

// The checksums of a file's chunks, while it is written. Not thread-safe.
class ChunkChecksums {
 public:
  // Bytes of every chunk but the last.
  static constexpr int64_t kChunk = int64_t{1} << 20;

  ChunkChecksums();
  ~ChunkChecksums();

  void Append(absl::string_view bytes);
  // Of the whole file. Call once, last.
  std::vector<uint64_t> Finish();

 private:
  struct State;
  const std::unique_ptr<State> state_;  // of the chunk that is open
  int64_t open_bytes_ = 0;
  std::vector<uint64_t> finished_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_CHECKSUM_H_
