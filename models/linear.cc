#include "models/linear.h"

#include "kernels/column_sum.h"
#include "kernels/matmul.h"

namespace tessera {

using kernels::MatMul;
using kernels::Transpose;

absl::Status LinearForward(Lane& lane, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Tensor& y) {
  return MatMul(lane, x, Transpose::kNo, weight, Transpose::kNo, &bias, y);
}

int64_t LinearBackwardWorkspace(int64_t rows, int64_t outputs) {
  return kernels::ColumnSumWorkspace(rows, outputs);
}

absl::Status LinearBackwardParameters(Lane& lane, const Tensor& x, const Tensor& d_y,
                                      const LinearGradients& gradients, std::byte* workspace) {
  TESSERA_RETURN_IF_ERROR(
      MatMul(lane, x, Transpose::kYes, d_y, Transpose::kNo, nullptr, gradients.weight));
  return kernels::ColumnSum(lane, d_y, gradients.bias, workspace);
}

absl::Status LinearBackwardInput(Lane& lane, const Tensor& d_y, const Tensor& weight,
                                 const Tensor& d_x) {
  return MatMul(lane, d_y, Transpose::kNo, weight, Transpose::kYes, nullptr, d_x);
}

}  // namespace tessera
