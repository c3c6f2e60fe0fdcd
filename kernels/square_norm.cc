#include "kernels/square_norm.h"

#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(SquareNorm);

absl::Status SquareNorm(Lane& lane, const Tensor& x, const Tensor& accumulator, bool add) {
  TESSERA_DISPATCH(SquareNorm, lane, x, accumulator, add);
}

}  // namespace tessera::kernels
