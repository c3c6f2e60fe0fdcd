#include "kernels/swiglu.h"

#include "core/status.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(SwiGluForward);
TESSERA_DECLARE_BACKENDS(SwiGluBackward);

absl::Status SwiGluForward(Lane& lane, const Tensor& x, const Tensor& y) {
  TESSERA_CHECK(x.elements() == 2 * y.elements(), "shapes differ");
  TESSERA_DISPATCH(SwiGluForward, lane, x, y);
}

absl::Status SwiGluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                            const Tensor& dx) {
  TESSERA_CHECK(x.elements() == 2 * y.elements() && dy.elements() == y.elements() &&
                    dx.elements() == x.elements(),
                "shapes differ");
  TESSERA_CHECK(dy.dtype == x.dtype && dx.dtype == x.dtype, "dtypes differ");
  TESSERA_DISPATCH(SwiGluBackward, lane, x, dy, y, dx);
}

}  // namespace tessera::kernels
