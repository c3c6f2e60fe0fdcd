#ifndef TESSERA_KERNELS_ADAMW_H_
#define TESSERA_KERNELS_ADAMW_H_

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"
#include "kernels/adamw_update.h"
#include "kernels/stochastic_rounding.h"

namespace tessera::kernels {

// One step of AdamW on every element. `gradient` is fp32 or bf16 and is first
// multiplied by float(*clip_factor), if that is not null. The fp32 `master`,
// `first_moment` and `second_moment` are updated in place. `parameter`, if not
// null, gets master rounded to its dtype, to nearest or, if `rounding` is not null,
// for which it must be bf16, stochastically; where the model is fp32, master is the
// parameter itself.
absl::Status AdamW(Lane& lane, const AdamWScalars& scalars, const Tensor& gradient,
                   const double* clip_factor, const Tensor& master, const Tensor& first_moment,
                   const Tensor& second_moment, const Tensor* parameter,
                   const StochasticRounding* rounding = nullptr);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_ADAMW_H_
