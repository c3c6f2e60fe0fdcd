#include "kernels/cuda/normalization.h"
#include "kernels/layernorm.h"

namespace tessera::kernels::cuda {

absl::Status LayerNormForward(Lane& lane, const Tensor& x, const Tensor* residual,
                              const Tensor* sum, const Tensor& weight, const Tensor& bias,
                              const Tensor& out, const Tensor& mean, const Tensor& rstd) {
  return NormalizationForward(lane, x, residual, sum, weight, &bias, kLayerNormEpsilon, out, &mean,
                              rstd);
}

absl::Status LayerNormBackward(Lane& lane, const Tensor& d_out, const Tensor& x,
                               const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                               const Tensor* residual_gradient, const Tensor& d_x,
                               const Tensor& d_weight, const Tensor& d_bias, std::byte* workspace) {
  return NormalizationBackward(lane, d_out, x, weight, &mean, rstd, residual_gradient, d_x,
                               d_weight, &d_bias, workspace);
}

}  // namespace tessera::kernels::cuda
