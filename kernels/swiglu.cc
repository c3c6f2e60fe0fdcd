#include "kernels/swiglu.h"

#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(SwiGluForward);
TESSERA_DECLARE_BACKENDS(SwiGluBackward);

absl::Status SwiGluForward(Lane& lane, const Tensor& x, const Tensor& y) {
  TESSERA_DISPATCH(SwiGluForward, lane, x, y);
}

absl::Status SwiGluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                            const Tensor& dx) {
  TESSERA_DISPATCH(SwiGluBackward, lane, x, dy, y, dx);
}

}  // namespace tessera::kernels
