#ifndef TESSERA_KERNELS_LINEAR_CROSS_ENTROPY_H_
#define TESSERA_KERNELS_LINEAR_CROSS_ENTROPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// Rows whose logits exist at once, and what precedes them in the workspace: a loss of
// every row, as a double.
inline constexpr int64_t kLinearCrossEntropyRows = 256;
constexpr int64_t LinearCrossEntropyLossBytes(int64_t rows) {
  return (rows * SizeOf(DType::kFloat64) + 63) / 64 * 64;
}

// Bytes of workspace that LinearCrossEntropy needs: a chunk's fp32 logits.
int64_t LinearCrossEntropyWorkspace(int64_t rows, int64_t vocabulary);

// The last layer with its loss. With logits = x weight^T of x [rows, C] and weight
// [V, C] (both fp32 or both bf16), *loss = the sum over rows, in order, of
// -ln softmax(logits)[target], and, unless d_logits is null, d_logits [rows, V],
// of x's dtype, = (softmax(logits) - onehot(target)) * gradient_scale, rounded
// once. The gradients are then matrix products: of x d_logits weight, of weight
// d_logits^T x. Logits are fp32 and exist for a chunk of rows at a time, in
// `workspace`, which is 64-aligned. targets are int32 [rows].
//
// OutOfRange for a target outside [0, V), before anything is written; on a GPU it
// counts as 0, and the device's Join has the error. Else the errors of MatMul.
absl::Status LinearCrossEntropy(Lane& lane, const Tensor& x, const Tensor& weight,
                                const Tensor& targets, float gradient_scale, double* loss,
                                const Tensor* d_logits, std::byte* workspace);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_LINEAR_CROSS_ENTROPY_H_
