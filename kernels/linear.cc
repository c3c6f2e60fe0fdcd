#include "kernels/linear.h"

#include "core/status.h"
#include "kernels/column_sum.h"
#include "kernels/gelu.h"
#include "kernels/matmul.h"

namespace tessera::kernels {

namespace cuda {
// Unimplemented, and nothing is issued, where it takes more than one product.
decltype(kernels::LinearGeluForward) LinearGeluForward;
decltype(kernels::LinearBackwardParameters) LinearBackwardParameters;
decltype(kernels::LinearBackwardGelu) LinearBackwardGelu;
}  // namespace cuda

// Returns what the GPU's function does, if it does.
#ifdef TESSERA_CUDA
#define TESSERA_TRY_IN_ONE(function, lane, ...)                    \
  if ((lane).backend() == Backend::kCuda) {                        \
    const absl::Status status = cuda::function(lane, __VA_ARGS__); \
    if (!absl::IsUnimplemented(status)) return status;             \
  }                                                                \
  static_assert(true, "so that a semicolon may follow")
#else
#define TESSERA_TRY_IN_ONE(function, lane, ...) \
  static_assert(true, "so that a semicolon may follow")
#endif

absl::Status LinearForward(Lane& lane, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Tensor& y) {
  return MatMul(lane, x, Transpose::kNo, weight, Transpose::kNo, &bias, y);
}

absl::Status LinearGeluForward(Lane& lane, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor* pre_activation, const Tensor& y) {
  TESSERA_TRY_IN_ONE(LinearGeluForward, lane, x, weight, bias, pre_activation, y);
  const Tensor& product = pre_activation == nullptr ? y : *pre_activation;
  TESSERA_RETURN_IF_ERROR(LinearForward(lane, x, weight, bias, product));
  return GeluForward(lane, product, y);
}

int64_t LinearBackwardWorkspace(int64_t rows, int64_t outputs) {
  return ColumnSumWorkspace(rows, outputs);
}

absl::Status LinearBackwardParameters(Lane& lane, const Tensor& x, const Tensor& d_y,
                                      const LinearGradients& gradients, std::byte* workspace) {
  TESSERA_TRY_IN_ONE(LinearBackwardParameters, lane, x, d_y, gradients, workspace);
  TESSERA_RETURN_IF_ERROR(
      MatMul(lane, x, Transpose::kYes, d_y, Transpose::kNo, nullptr, gradients.weight));
  return ColumnSum(lane, d_y, gradients.bias, workspace);
}

absl::Status LinearBackwardInput(Lane& lane, const Tensor& d_y, const Tensor& weight,
                                 const Tensor& d_x) {
  return MatMul(lane, d_y, Transpose::kNo, weight, Transpose::kYes, nullptr, d_x);
}

absl::Status LinearBackwardGelu(Lane& lane, const Tensor& d_y, const Tensor& weight,
                                const Tensor& pre_activation, const Tensor& d_pre_activation,
                                const Tensor& x) {
  TESSERA_TRY_IN_ONE(LinearBackwardGelu, lane, d_y, weight, pre_activation, d_pre_activation, x);
  TESSERA_RETURN_IF_ERROR(LinearBackwardInput(lane, d_y, weight, d_pre_activation));
  return GeluBackward(lane, pre_activation, d_pre_activation, x, d_pre_activation);
}

}  // namespace tessera::kernels
