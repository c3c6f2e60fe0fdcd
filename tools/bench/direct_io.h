#ifndef TESSERA_TOOLS_BENCH_DIRECT_IO_H_
#define TESSERA_TOOLS_BENCH_DIRECT_IO_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tessera {

// The plainest way to keep a disk busy: one file, direct I/O, a ring of requests of one
// size that is always full. What the NVMe tier is measured against.
class DirectIo {
 public:
  // A file of `bytes`, a multiple of `block`, in `folder`; gone with this object, which
  // `memory`, from a page on and of more than depth blocks, must outlive.
  static absl::StatusOr<std::unique_ptr<DirectIo>> Create(const std::string& folder, int64_t bytes,
                                                          int64_t block, int depth,
                                                          std::byte* memory, int64_t memory_bytes);
  virtual ~DirectIo() = default;

  // Seconds that reading or writing the whole file took.
  virtual absl::StatusOr<double> Seconds(bool write) = 0;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_DIRECT_IO_H_
