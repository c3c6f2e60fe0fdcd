#ifndef TESSERA_KERNELS_RMSNORM_H_
#define TESSERA_KERNELS_RMSNORM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

inline constexpr float kRmsNormEpsilon = 1e-5f;

// Normalisation of every row by its root mean square (Zhang and Sennrich, arXiv
// 1910.07467):
//   out = s * rstd * weight,  rstd = 1 / sqrt(mean of s^2 + epsilon)
// where s is x or, if `residual` is not null, x + residual, rounded to the dtype
// and written to *sum (which may be x or residual). x and out are [rows, width],
// or more dimensions, the last of which is width; weight [width]; rstd fp32 [rows].
//
// InvalidArgument on a GPU for rows that are too wide: of more than 16,384, or 8,192
// if that is not a multiple of 8. The backward too.
absl::Status RmsNormForward(Lane& lane, const Tensor& x, const Tensor* residual, const Tensor* sum,
                            const Tensor& weight, const Tensor& out, const Tensor& rstd);

// Bytes of workspace for RmsNormBackward, 64-aligned.
int64_t RmsNormBackwardWorkspace(int64_t rows, int64_t width);

// `x` is what was normalised. d_x = the gradient through the normalisation, plus
// *residual_gradient if that is not null, rounded once; d_x may be d_out or
// *residual_gradient. d_weight is fp32 or bf16.
absl::Status RmsNormBackward(Lane& lane, const Tensor& d_out, const Tensor& x, const Tensor& weight,
                             const Tensor& rstd, const Tensor* residual_gradient, const Tensor& d_x,
                             const Tensor& d_weight, std::byte* workspace);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_RMSNORM_H_
