#ifndef TESSERA_KERNELS_LINEAR_CROSS_ENTROPY_H_
#define TESSERA_KERNELS_LINEAR_CROSS_ENTROPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// The last layer with its loss. logits = x weight^T of x [rows, C] and weight [V, C]
// (both fp32 or both bf16), and *loss = the sum over rows, in order, of
// -ln softmax(logits)[target]. targets are int32 [rows].
//
// Never are there logits or their gradients of all rows: logits are fp32 and exist for
// kLogitRows rows at a time, their gradients, of x's dtype, for kLogitGradientRows. The
// workspaces are 64-aligned.
//
// OutOfRange for a target outside [0, V); on a GPU it counts as 0, and the device's
// Join has the error. Else the errors of MatMul. After an error the outputs are
// undefined.
inline constexpr int64_t kLogitRows = 256;
inline constexpr int64_t kLogitGradientRows = 2048;

// Bytes of workspace that LinearCrossEntropy needs.
int64_t LinearCrossEntropyWorkspace(int64_t rows, int64_t vocabulary);

absl::Status LinearCrossEntropy(Lane& lane, const Tensor& x, const Tensor& weight,
                                const Tensor& targets, double* loss, std::byte* workspace);

// Bytes of workspace that LinearCrossEntropyGradients needs for an x of `dtype`.
int64_t LinearCrossEntropyGradientsWorkspace(int64_t rows, int64_t vocabulary, DType dtype);

// The loss with its gradients times gradient_scale: d_x, of x's dtype, rounded once,
// and d_weight, in fp32, to which chunks of rows are added in order. Computing the loss
// on the way spares a third product with the logits.
absl::Status LinearCrossEntropyGradients(Lane& lane, const Tensor& x, const Tensor& weight,
                                         const Tensor& targets, float gradient_scale, double* loss,
                                         const Tensor& d_x, const Tensor& d_weight,
                                         std::byte* workspace);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_LINEAR_CROSS_ENTROPY_H_
