#ifndef TESSERA_KERNELS_SQUARE_NORM_H_
#define TESSERA_KERNELS_SQUARE_NORM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// Elements that are summed in doubles before they reach the exact accumulator.
inline constexpr int64_t kSquareNormChunk = 1024;
// A chunk's running sums: element i goes into sum i % 16, in order, and the upper half
// of the sums is added to the lower one until one is left.
inline constexpr int64_t kSquareNormSums = 16;

// The sum of x's squares, added to (or, without `add`, written over) an ExactSum
// in memory: int64 [ExactSum::kWords]. x is fp32 or bf16. Chunks start at x's
// first element, so x must start at a multiple of kSquareNormChunk of whatever it
// is a part of; then the sum does not depend on how that is cut.
absl::Status SquareNorm(Lane& lane, const Tensor& x, const Tensor& accumulator, bool add);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_SQUARE_NORM_H_
