#include "kernels/copy.h"

#include <cuda_runtime_api.h>

#include "core/cuda_lane.h"

namespace tessera::kernels::cuda {

absl::Status Copy(Lane& lane, const std::byte* from, std::byte* to, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return CudaStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                                    CudaLaneOf(lane).stream()),
                    "cudaMemcpyAsync");
}

}  // namespace tessera::kernels::cuda
