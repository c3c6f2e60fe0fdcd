#ifndef TESSERA_KERNELS_CUDA_FAULT_H_
#define TESSERA_KERNELS_CUDA_FAULT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda_lane.h"

namespace tessera::kernels::cuda {

// `index` if it is below `limit` and not negative; else 0, after reporting it to
// `fault`, unless that is null or has a report already. `position` is its element.
__device__ inline int32_t CheckedIndex(CudaFault* fault, CudaFault::Kind kind, int32_t index,
                                       int64_t position, int64_t limit) {
  if (index >= 0 && index < limit) return index;
  if (fault != nullptr && atomicCAS(&fault->kind, static_cast<int32_t>(CudaFault::kNone),
                                    static_cast<int32_t>(kind)) == CudaFault::kNone) {
    fault->value = index;
    fault->position = position;
    fault->limit = limit;
  }
  return 0;
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_FAULT_H_
