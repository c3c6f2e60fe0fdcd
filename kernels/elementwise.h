#ifndef TESSERA_KERNELS_ELEMENTWISE_H_
#define TESSERA_KERNELS_ELEMENTWISE_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/device.h"
#include "core/philox.h"
#include "core/tensor.h"

namespace tessera::kernels {

// Tensors of one call have equally many elements; they are fp32 or bf16 unless
// said otherwise. An output may be an input of the same dtype.

// out = the fp32 contributions, added in order in fp32 and rounded once. Unimplemented
// on a GPU for more than 256.
absl::Status SumContributions(Lane& lane, absl::Span<const Tensor> contributions,
                              const Tensor& out);

// out = a + b, rounded once.
absl::Status Add(Lane& lane, const Tensor& a, const Tensor& b, const Tensor& out);

// Rounds, or widens, to the dtype of `to`.
absl::Status Convert(Lane& lane, const Tensor& from, const Tensor& to);

// Clears a tensor of any dtype.
absl::Status FillZero(Lane& lane, const Tensor& tensor);

// y = x / (1 - probability) where UnitFloat(key.Word(element)) >= probability,
// else 0. Also its own backward, with gradients in place of x and y.
// 0 <= probability < 1; fewer than 2^34 elements.
absl::Status Dropout(Lane& lane, const Tensor& x, float probability, const RandomKey& key,
                     const Tensor& y);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_ELEMENTWISE_H_
