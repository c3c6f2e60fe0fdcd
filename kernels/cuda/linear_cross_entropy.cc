#include "kernels/linear_cross_entropy.h"

#include <algorithm>

#include "core/status.h"
#include "kernels/cuda/softmax_cross_entropy.h"
#include "kernels/dispatch.h"
#include "kernels/matmul.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(MatMul);

namespace cuda {
namespace {

// Elements of a tensor's rows [first, first + count), each `width` wide.
Tensor Rows(const Tensor& whole, int64_t first, int64_t count, int64_t width) {
  auto* const data = static_cast<std::byte*>(whole.data) + first * width * SizeOf(whole.dtype);
  return {data, whole.dtype, {count, width}};
}

}  // namespace

absl::Status LinearCrossEntropy(Lane& lane, const Tensor& x, const Tensor& weight,
                                const Tensor& targets, float gradient_scale, double* loss,
                                const Tensor* d_logits, std::byte* workspace) {
  const int64_t rows = targets.elements();
  const int64_t vocabulary = weight.shape[0];
  const int64_t width = weight.shape[1];
  TESSERA_CHECK(x.elements() == rows * width, "x");
  TESSERA_CHECK(d_logits == nullptr ||
                    (d_logits->dtype == x.dtype && d_logits->elements() == rows * vocabulary),
                "d_logits");
  auto* const losses = reinterpret_cast<double*>(workspace);
  std::byte* const logits_data = workspace + LinearCrossEntropyLossBytes(rows);
  for (int64_t first = 0; first < rows; first += kLinearCrossEntropyRows) {
    const int64_t count = std::min(kLinearCrossEntropyRows, rows - first);
    const Tensor logits = {logits_data, DType::kFloat32, {count, vocabulary}};
    TESSERA_RETURN_IF_ERROR(cuda::MatMul(lane, Rows(x, first, count, width), Transpose::kNo, weight,
                                         Transpose::kYes, nullptr, logits));
    Tensor gradient;
    if (d_logits != nullptr) gradient = Rows(*d_logits, first, count, vocabulary);
    TESSERA_RETURN_IF_ERROR(SoftmaxCrossEntropy(
        lane, logits, {targets.as<int32_t>() + first, DType::kInt32, {count}}, first,
        gradient_scale, losses + first, d_logits != nullptr ? &gradient : nullptr));
  }
  return SumLosses(lane, losses, rows, loss);
}

}  // namespace cuda
}  // namespace tessera::kernels
