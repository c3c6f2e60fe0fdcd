#include "kernels/layernorm.h"

#include <algorithm>

#include "core/status.h"
#include "kernels/cuda/workspace.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(LayerNormForward);
TESSERA_DECLARE_BACKENDS(LayerNormBackward);
TESSERA_DECLARE_BACKENDS(LayerNormBackwardWorkspace);

int64_t LayerNormBackwardWorkspace(int64_t rows, int64_t width) {
  return std::max(cpu::LayerNormBackwardWorkspace(rows, width),
                  RoundUpToAlignment(cuda::NormalizationBackwardWorkspaceBytes(rows, width, 2)));
}

absl::Status LayerNormForward(Lane& lane, const Tensor& x, const Tensor* residual,
                              const Tensor* sum, const Tensor& weight, const Tensor& bias,
                              const Tensor& out, const Tensor& mean, const Tensor& rstd) {
  const int64_t width = weight.elements();
  const int64_t rows = rstd.elements();
  TESSERA_CHECK(x.elements() == rows * width && out.elements() == rows * width,
                "tensors differ in size");
  TESSERA_CHECK((residual == nullptr) == (sum == nullptr), "a residual needs a sum");
  TESSERA_DISPATCH(LayerNormForward, lane, x, residual, sum, weight, bias, out, mean, rstd);
}

absl::Status LayerNormBackward(Lane& lane, const Tensor& d_out, const Tensor& x,
                               const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                               const Tensor* residual_gradient, const Tensor& d_x,
                               const Tensor& d_weight, const Tensor& d_bias, std::byte* workspace) {
  const int64_t width = weight.elements();
  const int64_t rows = rstd.elements();
  TESSERA_CHECK(x.elements() == rows * width && d_out.elements() == rows * width &&
                    d_x.elements() == rows * width,
                "tensors differ in size");
  TESSERA_DISPATCH(LayerNormBackward, lane, d_out, x, weight, mean, rstd, residual_gradient, d_x,
                   d_weight, d_bias, workspace);
}

}  // namespace tessera::kernels
