#ifndef TESSERA_KERNELS_LINEAR_H_
#define TESSERA_KERNELS_LINEAR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// A linear layer y = x weight + bias. x is [rows, in] and y [rows, out] (or more
// dimensions, the last of in and of out), weight [in, out], bias [out], all fp32 or
// all bf16, sums in fp32. Outputs overlap nothing but what is said. The errors are
// those of MatMul. A GPU does each of these in one matrix product where cuBLASLt has
// one, which depends on nothing but the shapes.

absl::Status LinearForward(Lane& lane, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Tensor& y);

// y = GELU(x weight + bias), and, unless `pre_activation` is null, that of which it
// is the GELU, as [rows, out], for the backward. GELU is of the value before or after
// its rounding to the dtype, as the backend has it.
absl::Status LinearGeluForward(Lane& lane, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor* pre_activation, const Tensor& y);

// Bytes of workspace for LinearBackwardParameters, 64-aligned.
int64_t LinearBackwardWorkspace(int64_t rows, int64_t outputs);

// What LinearBackwardParameters writes; each may be fp32 or the type of x.
struct LinearGradients {
  Tensor weight, bias;
};

// The gradients of weight, x^T d_y, and bias, the columns' sums of d_y.
absl::Status LinearBackwardParameters(Lane& lane, const Tensor& x, const Tensor& d_y,
                                      const LinearGradients& gradients, std::byte* workspace);

// The gradient of x, d_y weight^T.
absl::Status LinearBackwardInput(Lane& lane, const Tensor& d_y, const Tensor& weight,
                                 const Tensor& d_x);

// The same where x is the GELU of `pre_activation`, which both outputs have the shape
// of: its gradient, and x once more, which saves keeping it for
// LinearBackwardParameters.
absl::Status LinearBackwardGelu(Lane& lane, const Tensor& d_y, const Tensor& weight,
                                const Tensor& pre_activation, const Tensor& d_pre_activation,
                                const Tensor& x);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_LINEAR_H_
