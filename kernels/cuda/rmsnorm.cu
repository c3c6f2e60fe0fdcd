#include "kernels/cuda/normalization.h"
#include "kernels/rmsnorm.h"

namespace tessera::kernels::cuda {

absl::Status RmsNormForward(Lane& lane, const Tensor& x, const Tensor* residual, const Tensor* sum,
                            const Tensor& weight, const Tensor& out, const Tensor& rstd) {
  return NormalizationForward(lane, x, residual, sum, weight, nullptr, kRmsNormEpsilon, out,
                              nullptr, rstd);
}

absl::Status RmsNormBackward(Lane& lane, const Tensor& d_out, const Tensor& x, const Tensor& weight,
                             const Tensor& rstd, const Tensor* residual_gradient, const Tensor& d_x,
                             const Tensor& d_weight, std::byte* workspace) {
  return NormalizationBackward(lane, d_out, x, weight, nullptr, rstd, residual_gradient, d_x,
                               d_weight, nullptr, workspace);
}

}  // namespace tessera::kernels::cuda
