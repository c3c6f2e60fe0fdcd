#ifndef TESSERA_KERNELS_CUDA_LAUNCH_CHECKS_H_
#define TESSERA_KERNELS_CUDA_LAUNCH_CHECKS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"

namespace tessera::kernels::cuda {

// A grid's or a block's extents, wide enough to be checked before they are CUDA's.
struct Extents {
  Extents(int64_t x, int64_t y = 1, int64_t z = 1) : x(x), y(y), z(z) {}  // NOLINT: a number is one
  Extents(dim3 extents) : x(extents.x), y(extents.y), z(extents.z) {}     // NOLINT: so is dim3

  bool empty() const { return x == 0 || y == 0 || z == 0; }

  int64_t x;
  int64_t y;
  int64_t z;
};

// What is checked before a launch: Internal for extents that CUDA does not allow.
// Lets `kernel` use as much dynamic shared memory as asked for.
absl::Status PrepareLaunch(const void* kernel, const char* name, const Extents& grid,
                           const Extents& block, int64_t shared_bytes);

// The error that a launch left, named.
absl::Status LaunchStatus(const char* name);

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_LAUNCH_CHECKS_H_
