#include "kernels/gelu.h"

#include "core/status.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(GeluForward);
TESSERA_DECLARE_BACKENDS(GeluBackward);

absl::Status GeluForward(Lane& lane, const Tensor& x, const Tensor& y) {
  TESSERA_CHECK(x.elements() == y.elements(), "shapes differ");
  TESSERA_DISPATCH(GeluForward, lane, x, y);
}

absl::Status GeluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                          const Tensor& dx) {
  TESSERA_CHECK(x.elements() == dy.elements() && x.elements() == y.elements() &&
                    x.elements() == dx.elements(),
                "shapes differ");
  TESSERA_DISPATCH(GeluBackward, lane, x, dy, y, dx);
}

}  // namespace tessera::kernels
