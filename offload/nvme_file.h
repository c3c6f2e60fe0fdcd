#ifndef TESSERA_OFFLOAD_NVME_FILE_H_
#define TESSERA_OFFLOAD_NVME_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "offload/io_queue.h"
#include "offload/tier.h"

namespace tessera {

// The NVMe tier of one rank: a file that has its full size before the first step, and
// that has no name, so it vanishes with the process however that ends.
class NvmeFile {
 public:
  // Whole multiples of kNvmeAlignment are moved, so both sides have room for the rest
  // of the last.
  using Transfer = IoRange;

  // Makes a file of `bytes` in `folder`, which must exist; several runs and ranks may
  // share it. NotFound, PermissionDenied, ResourceExhausted (a full disk, a quota, a
  // limit of the process) or Unavailable, with path, size, errno and what to do.
  static absl::StatusOr<std::unique_ptr<NvmeFile>> Create(const std::string& folder, int64_t bytes);

  virtual ~NvmeFile() = default;

  // Moves all of `transfers`, several at once in flight, and returns when the last is
  // done. One thread may read while another one writes. DataLoss (short) or
  // Unavailable (an error), with path, offset, size and errno.
  virtual absl::Status Read(absl::Span<const Transfer> transfers) = 0;
  virtual absl::Status Write(absl::Span<const Transfer> transfers) = 0;

  // What a user should know about how the file is used here, e.g. that its file system
  // refuses direct I/O; empty if all is as it should be.
  virtual std::string note() const = 0;
};

}  // namespace tessera

#endif  // TESSERA_OFFLOAD_NVME_FILE_H_
