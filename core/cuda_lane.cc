#include "core/cuda_lane.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tessera {

absl::Status CudaStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string text =
      absl::StrCat(call, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
  switch (error) {
    case cudaErrorMemoryAllocation:
      return absl::ResourceExhaustedError(text);
    case cudaErrorNoKernelImageForDevice:
      return absl::FailedPreconditionError(absl::StrCat(
          text, "; this program was not built for this GPU: build it for its architecture"));
    default:
      return absl::InternalError(text);
  }
}

}  // namespace tessera
