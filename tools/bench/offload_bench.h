#ifndef TESSERA_TOOLS_BENCH_OFFLOAD_BENCH_H_
#define TESSERA_TOOLS_BENCH_OFFLOAD_BENCH_H_

#include <string>

#include "absl/status/status.h"

namespace tessera {

// The NVMe tier's file in `folder` against plain direct I/O of the same block size and
// depth; then a step of GPT-2 124M, accumulation 4, bf16, with the optimizer on the host
// and on NVMe, against one with everything on the device. Takes 6 GB of memory and 4 GB
// of disk.
absl::Status BenchOffload(const std::string& folder);

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_OFFLOAD_BENCH_H_
