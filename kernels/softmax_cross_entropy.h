#ifndef TESSERA_KERNELS_SOFTMAX_CROSS_ENTROPY_H_
#define TESSERA_KERNELS_SOFTMAX_CROSS_ENTROPY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// For every row of the fp32 logits [rows, V], row_losses[row] = -ln softmax(row)[target],
// and, unless d_logits is null, its row, fp32 or bf16, = (softmax(row) -
// onehot(target)) * gradient_scale, rounded once. targets are int32 [rows]. On the CPU
// the logits are overwritten.
//
// A target outside [0, V) is OutOfRange, naming first_row + its row, and on a GPU
// counts as 0, and the device's Join has the error.
absl::Status SoftmaxCrossEntropy(Lane& lane, const Tensor& logits, const Tensor& targets,
                                 int64_t first_row, float gradient_scale, double* row_losses,
                                 const Tensor* d_logits);

// *total = the sum of losses[0 .. count), in order.
absl::Status SumLosses(Lane& lane, const double* losses, int64_t count, double* total);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_SOFTMAX_CROSS_ENTROPY_H_
