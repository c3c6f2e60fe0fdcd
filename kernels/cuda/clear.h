#ifndef TESSERA_KERNELS_CUDA_CLEAR_H_
#define TESSERA_KERNELS_CUDA_CLEAR_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "absl/status/status.h"
#include "core/cuda_lane.h"

namespace tessera::kernels::cuda {

// Fills memory of the device with zeros.
inline absl::Status Clear(Lane& lane, void* data, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return CudaStatus(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), CudaLaneOf(lane).stream()),
                    "cudaMemsetAsync");
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_CLEAR_H_
