#ifndef TESSERA_KERNELS_CUDA_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_LAUNCH_H_

// For .cu files, the same text of which nvcc compiles for GPUs and the host's compiler
// for its own processor. What the two write differently is here and in tensor_core.h.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/cuda_lane.h"
#include "kernels/cuda/launch_checks.h"

namespace tessera::kernels::cuda {

// TESSERA_LAUNCH, as a function.
template <typename... Parameters, typename... Arguments>
absl::Status Launch(Lane& lane, void (*kernel)(Parameters...), const char* name,
                    const Extents& grid, const Extents& block, int64_t shared_bytes,
                    Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  if (grid.empty()) return absl::OkStatus();
  if (absl::Status status =
          PrepareLaunch(reinterpret_cast<const void*>(kernel), name, grid, block, shared_bytes);
      !status.ok()) {
    return status;
  }
  const dim3 blocks(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y),
                    static_cast<unsigned>(grid.z));
  const dim3 threads(static_cast<unsigned>(block.x), static_cast<unsigned>(block.y),
                     static_cast<unsigned>(block.z));
  const auto shared = static_cast<size_t>(shared_bytes);
  cudaStream_t stream = CudaLaneOf(lane).stream();
#ifdef __CUDACC__
  kernel<<<blocks, threads, shared, stream>>>(static_cast<Parameters>(arguments)...);
#else
  cuda_on_cpu::LaunchKernel(kernel, name, blocks, threads, shared, stream,
                            static_cast<Parameters>(arguments)...);
#endif
  return LaunchStatus(name);
}

}  // namespace tessera::kernels::cuda

// Launches a kernel in a lane:
//   TESSERA_LAUNCH(lane, (ScaleKernel<float>), grid, block, shared_bytes, x, by, n)
// `grid` and `block` are numbers, dim3 or Extents; a grid of nothing is OK and launches
// nothing. `shared_bytes` of dynamic shared memory. The arguments are converted to the
// kernel's parameters. An absl::Status: of the launch, not of what the kernel then does.
#define TESSERA_LAUNCH(lane, kernel, ...) \
  ::tessera::kernels::cuda::Launch(lane, kernel, #kernel, __VA_ARGS__)

// A block's shared memory, in a kernel or what it calls:
//   TESSERA_SHARED(float, tile, [32][33]);
//   TESSERA_DYNAMIC_SHARED(float, rows);  // float* rows, 128-aligned
#ifdef __CUDACC__
#define TESSERA_SHARED(type, name, extents) __shared__ type name extents
#define TESSERA_DYNAMIC_SHARED(type, name)                                 \
  extern __shared__ __align__(128) unsigned char tessera_dynamic_shared[]; \
  type* name = reinterpret_cast<type*>(tessera_dynamic_shared)
#else
#define TESSERA_SHARED(type, name, extents)                                                   \
  using name##_shared_array = type extents;                                                   \
  static ::tessera::cuda_on_cpu::SharedArray name##_shared_place;                             \
  auto& name = *static_cast<name##_shared_array*>(::tessera::cuda_on_cpu::StaticSharedMemory( \
      name##_shared_place, sizeof(name##_shared_array), #name))
#define TESSERA_DYNAMIC_SHARED(type, name) \
  type* name = static_cast<type*>(::tessera::cuda_on_cpu::DynamicSharedMemory())
#endif

#endif  // TESSERA_KERNELS_CUDA_LAUNCH_H_
