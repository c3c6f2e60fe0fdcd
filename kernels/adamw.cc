#include "kernels/adamw.h"

#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(AdamW);

absl::Status AdamW(Lane& lane, const AdamWScalars& scalars, const Tensor& gradient,
                   const double* clip_factor, const Tensor& master, const Tensor& first_moment,
                   const Tensor& second_moment, const Tensor* parameter,
                   const StochasticRounding* rounding) {
  TESSERA_DISPATCH(AdamW, lane, scalars, gradient, clip_factor, master, first_moment, second_moment,
                   parameter, rounding);
}

}  // namespace tessera::kernels
