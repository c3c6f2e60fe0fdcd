#include "kernels/rmsnorm.h"

#include <algorithm>

#include "kernels/cuda/workspace.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(RmsNormForward);
TESSERA_DECLARE_BACKENDS(RmsNormBackward);
TESSERA_DECLARE_BACKENDS(RmsNormBackwardWorkspace);

int64_t RmsNormBackwardWorkspace(int64_t rows, int64_t width) {
  return std::max(cpu::RmsNormBackwardWorkspace(rows, width),
                  RoundUpToAlignment(cuda::NormalizationBackwardWorkspaceBytes(rows, width, 1)));
}

absl::Status RmsNormForward(Lane& lane, const Tensor& x, const Tensor* residual, const Tensor* sum,
                            const Tensor& weight, const Tensor& out, const Tensor& rstd) {
  TESSERA_DISPATCH(RmsNormForward, lane, x, residual, sum, weight, out, rstd);
}

absl::Status RmsNormBackward(Lane& lane, const Tensor& d_out, const Tensor& x, const Tensor& weight,
                             const Tensor& rstd, const Tensor* residual_gradient, const Tensor& d_x,
                             const Tensor& d_weight, std::byte* workspace) {
  TESSERA_DISPATCH(RmsNormBackward, lane, d_out, x, weight, rstd, residual_gradient, d_x, d_weight,
                   workspace);
}

}  // namespace tessera::kernels
