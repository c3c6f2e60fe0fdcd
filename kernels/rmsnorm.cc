#include "kernels/rmsnorm.h"

#include <algorithm>

#include "core/status.h"
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
  const int64_t width = weight.elements();
  const int64_t rows = rstd.elements();
  TESSERA_CHECK(x.elements() == rows * width && out.elements() == rows * width,
                "tensors differ in size");
  TESSERA_CHECK((residual == nullptr) == (sum == nullptr), "a residual needs a sum");
  TESSERA_DISPATCH(RmsNormForward, lane, x, residual, sum, weight, out, rstd);
}

absl::Status RmsNormBackward(Lane& lane, const Tensor& d_out, const Tensor& x, const Tensor& weight,
                             const Tensor& rstd, const Tensor* residual_gradient, const Tensor& d_x,
                             const Tensor& d_weight, std::byte* workspace) {
  const int64_t width = weight.elements();
  const int64_t rows = rstd.elements();
  TESSERA_CHECK(x.elements() == rows * width && d_out.elements() == rows * width &&
                    d_x.elements() == rows * width,
                "tensors differ in size");
  TESSERA_DISPATCH(RmsNormBackward, lane, d_out, x, weight, rstd, residual_gradient, d_x, d_weight,
                   workspace);
}

}  // namespace tessera::kernels
