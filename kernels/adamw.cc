#include "kernels/adamw.h"

#include "core/status.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(AdamW);

absl::Status AdamW(Lane& lane, const AdamWScalars& scalars, const Tensor& gradient,
                   const double* clip_factor, const Tensor& master, const Tensor& first_moment,
                   const Tensor& second_moment, const Tensor* parameter,
                   const StochasticRounding* rounding) {
  const int64_t elements = master.elements();
  TESSERA_CHECK(gradient.elements() == elements && first_moment.elements() == elements &&
                    second_moment.elements() == elements &&
                    (parameter == nullptr || parameter->elements() == elements),
                "tensors differ in size");
  TESSERA_CHECK(rounding == nullptr || (parameter != nullptr && rounding->first % 4 == 0 &&
                                        parameter->dtype == DType::kBFloat16),
                "only a copy in bf16 is rounded");
  TESSERA_DISPATCH(AdamW, lane, scalars, gradient, clip_factor, master, first_moment, second_moment,
                   parameter, rounding);
}

}  // namespace tessera::kernels
