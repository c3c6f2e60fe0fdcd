#ifndef TESSERA_KERNELS_CUDA_TOKEN_LISTS_H_
#define TESSERA_KERNELS_CUDA_TOKEN_LISTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels::cuda {

// Sorts positions by their token: those of token v, ascending, end up at
// [starts[v], starts[v + 1]) of `order`. starts has vocabulary + 1 elements, order
// and scratch as many as there are tokens. A token that is not in the vocabulary is
// a fault, and counts as token 0.
absl::Status ListTokens(Lane& lane, const Tensor& tokens, int64_t vocabulary, int32_t* starts,
                        int32_t* order, int32_t* scratch);

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_TOKEN_LISTS_H_
