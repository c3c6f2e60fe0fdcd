#ifndef TESSERA_MODELS_LINEAR_H_
#define TESSERA_MODELS_LINEAR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera {

// y = x weight + bias. x is [rows, in] and y [rows, out] (or more dimensions, the
// last of in and of out), weight [in, out], bias [out]. y overlaps nothing.
absl::Status LinearForward(Lane& lane, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           const Tensor& y);

// Bytes of workspace for LinearBackward, 64-aligned.
int64_t LinearBackwardWorkspace(int64_t rows, int64_t outputs);

// What LinearBackward writes; each may be fp32 or the type of x.
struct LinearGradients {
  Tensor weight, bias;
};

// The gradients of weight and bias, from x and the gradient of y.
absl::Status LinearBackwardParameters(Lane& lane, const Tensor& x, const Tensor& d_y,
                                      const LinearGradients& gradients, std::byte* workspace);

// The gradient of x; overlaps neither d_y nor weight.
absl::Status LinearBackwardInput(Lane& lane, const Tensor& d_y, const Tensor& weight,
                                 const Tensor& d_x);

}  // namespace tessera

#endif  // TESSERA_MODELS_LINEAR_H_
