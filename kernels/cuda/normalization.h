#ifndef TESSERA_KERNELS_CUDA_NORMALIZATION_H_
#define TESSERA_KERNELS_CUDA_NORMALIZATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels::cuda {

// What LayerNorm and RMSNorm have in common; the latter has no mean and no bias,
// where null stands. As in kernels/layernorm.h, `residual` and `sum` may be null.
// Widths to 16,384, if not a multiple of 8 to 8,192; else InvalidArgument.
absl::Status NormalizationForward(Lane& lane, const Tensor& x, const Tensor* residual,
                                  const Tensor* sum, const Tensor& weight, const Tensor* bias,
                                  float epsilon, const Tensor& out, const Tensor* mean,
                                  const Tensor& rstd);

// `workspace` has NormalizationBackwardWorkspaceBytes.
absl::Status NormalizationBackward(Lane& lane, const Tensor& d_out, const Tensor& x,
                                   const Tensor& weight, const Tensor* mean, const Tensor& rstd,
                                   const Tensor* residual_gradient, const Tensor& d_x,
                                   const Tensor& d_weight, const Tensor* d_bias,
                                   std::byte* workspace);

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_NORMALIZATION_H_
