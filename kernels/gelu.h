#ifndef TESSERA_KERNELS_GELU_H_
#define TESSERA_KERNELS_GELU_H_

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), the tanh approximation of
// Hendrycks and Gimpel, "Gaussian error linear units" (2016), as GPT-2 has it.
// Tensors of the same shape and dtype, fp32 or bf16; y may be x.
absl::Status GeluForward(Lane& lane, const Tensor& x, const Tensor& y);

// dx = dy times the derivative at x, and y once more, which costs little here and
// saves keeping it for the backward of what follows; dx may be dy.
absl::Status GeluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                          const Tensor& dx);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_GELU_H_
