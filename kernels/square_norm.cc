#include "kernels/square_norm.h"

#include "core/exact_sum.h"
#include "core/status.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(SquareNorm);

absl::Status SquareNorm(Lane& lane, const Tensor& x, const Tensor& accumulator, bool add) {
  TESSERA_CHECK(accumulator.elements() == ExactSum::kWords, "wrong size of an ExactSum");
  TESSERA_DISPATCH(SquareNorm, lane, x, accumulator, add);
}

}  // namespace tessera::kernels
