#ifndef TESSERA_KERNELS_SWIGLU_H_
#define TESSERA_KERNELS_SWIGLU_H_

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// y = silu(gate) * up, silu(g) = g / (1 + exp(-g)) (Shazeer, "GLU variants improve
// Transformer", arXiv 2002.05202). A row of x, [rows, 2 width] (or more dimensions),
// is gate | up, each as wide as a row of y, [rows, width]. Both of the same dtype,
// fp32 or bf16.
absl::Status SwiGluForward(Lane& lane, const Tensor& x, const Tensor& y);

// The gradient of x, from that of y, and y once more, which costs little here and
// saves keeping it for the backward of what follows. dx may be x.
absl::Status SwiGluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                            const Tensor& dx);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_SWIGLU_H_
