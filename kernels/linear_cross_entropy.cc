#include "kernels/linear_cross_entropy.h"

#include <algorithm>

#include "core/status.h"
#include "kernels/dispatch.h"
#include "kernels/matmul.h"
#include "kernels/softmax_cross_entropy.h"

namespace tessera::kernels {
namespace {

// What the workspace holds, one behind the other: a loss of every row, a chunk of
// logits and a chunk of their gradients.
struct Layout {
  Layout(int64_t rows, int64_t vocabulary, DType dtype)
      : logits(RoundUpToAlignment(rows * SizeOf(DType::kFloat64))),
        d_logits(logits + RoundUpToAlignment(std::min(rows, kLogitRows) * vocabulary *
                                             SizeOf(DType::kFloat32))),
        bytes(d_logits + std::min(rows, kLogitGradientRows) * vocabulary * SizeOf(dtype)) {}

  int64_t logits, d_logits;  // where they begin
  int64_t bytes;             // of all
};

// Rows [first, first + count) of a tensor, seen as a matrix `width` wide.
Tensor Rows(const Tensor& whole, int64_t first, int64_t count, int64_t width) {
  auto* const data = static_cast<std::byte*>(whole.data) + first * width * SizeOf(whole.dtype);
  return {data, whole.dtype, {count, width}};
}

// The losses of rows [first, first + count), and, unless `d_logits` is null, the
// gradients of their logits.
absl::Status Losses(Lane& lane, const Tensor& x, const Tensor& weight, const Tensor& targets,
                    int64_t first, int64_t count, float gradient_scale, const Layout& layout,
                    std::byte* workspace, const Tensor* d_logits) {
  const int64_t vocabulary = weight.shape[0];
  auto* const losses = reinterpret_cast<double*>(workspace);
  const int64_t end = first + count;
  for (int64_t row = first; row < end; row += kLogitRows) {
    const int64_t rows = std::min(kLogitRows, end - row);
    const Tensor logits = {workspace + layout.logits, DType::kFloat32, {rows, vocabulary}};
    TESSERA_RETURN_IF_ERROR(MatMul(lane, Rows(x, row, rows, weight.shape[1]), Transpose::kNo,
                                   weight, Transpose::kYes, nullptr, logits));
    Tensor gradient;
    if (d_logits != nullptr) gradient = Rows(*d_logits, row - first, rows, vocabulary);
    TESSERA_RETURN_IF_ERROR(SoftmaxCrossEntropy(lane, logits, Rows(targets, row, rows, 1), row,
                                                gradient_scale, losses + row,
                                                d_logits != nullptr ? &gradient : nullptr));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t LinearCrossEntropyWorkspace(int64_t rows, int64_t vocabulary) {
  return Layout(rows, vocabulary, DType::kFloat32).d_logits;
}

absl::Status LinearCrossEntropy(Lane& lane, const Tensor& x, const Tensor& weight,
                                const Tensor& targets, double* loss, std::byte* workspace) {
  const int64_t rows = targets.elements();
  TESSERA_CHECK(x.elements() == rows * weight.shape[1], "x");
  const Layout layout(rows, weight.shape[0], x.dtype);
  TESSERA_RETURN_IF_ERROR(
      Losses(lane, x, weight, targets, 0, rows, 1.0f, layout, workspace, nullptr));
  return SumLosses(lane, reinterpret_cast<double*>(workspace), rows, loss);
}

int64_t LinearCrossEntropyGradientsWorkspace(int64_t rows, int64_t vocabulary, DType dtype) {
  return Layout(rows, vocabulary, dtype).bytes;
}

absl::Status LinearCrossEntropyGradients(Lane& lane, const Tensor& x, const Tensor& weight,
                                         const Tensor& targets, float gradient_scale, double* loss,
                                         const Tensor& d_x, const Tensor& d_weight,
                                         std::byte* workspace) {
  const int64_t rows = targets.elements();
  const int64_t vocabulary = weight.shape[0];
  const int64_t width = weight.shape[1];
  TESSERA_CHECK(x.elements() == rows * width, "x");
  TESSERA_CHECK(d_x.dtype == x.dtype && d_x.elements() == x.elements(), "d_x");
  TESSERA_CHECK(d_weight.dtype == DType::kFloat32 && d_weight.elements() == weight.elements(),
                "d_weight");
  const Layout layout(rows, vocabulary, x.dtype);
  for (int64_t first = 0; first < rows; first += kLogitGradientRows) {
    const int64_t count = std::min(kLogitGradientRows, rows - first);
    const Tensor d_logits = {workspace + layout.d_logits, x.dtype, {count, vocabulary}};
    TESSERA_RETURN_IF_ERROR(Losses(lane, x, weight, targets, first, count, gradient_scale, layout,
                                   workspace, &d_logits));
    const Tensor own_x = Rows(x, first, count, width);
    if (first == 0) {
      TESSERA_RETURN_IF_ERROR(
          MatMul(lane, d_logits, Transpose::kYes, own_x, Transpose::kNo, nullptr, d_weight));
    } else {
      TESSERA_RETURN_IF_ERROR(
          MatMulAdd(lane, d_logits, Transpose::kYes, own_x, Transpose::kNo, d_weight));
    }
    TESSERA_RETURN_IF_ERROR(MatMul(lane, d_logits, Transpose::kNo, weight, Transpose::kNo, nullptr,
                                   Rows(d_x, first, count, width)));
  }
  return SumLosses(lane, reinterpret_cast<double*>(workspace), rows, loss);
}

}  // namespace tessera::kernels
