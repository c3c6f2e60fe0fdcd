#ifndef TESSERA_KERNELS_MATMUL_H_
#define TESSERA_KERNELS_MATMUL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

enum class Transpose : uint8_t { kNo, kYes };

// c = op(a) op(b) + bias, where op transposes if asked. Tensors are seen as
// matrices: all but the last extent collapsed. op(a) is [m, k], op(b) [k, n],
// c [m, n], and bias [n] or null. a, b and bias are fp32 or bf16, all the same;
// c is of that type or fp32, rounded once from fp32 sums. c overlaps nothing.
//
// The sum over k is never split, so the bits of c do not depend on threads.
// Extents may be 0; the sum over nothing is 0. Unimplemented or
// ResourceExhausted, as the matrix library has it, naming the shape.
absl::Status MatMul(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                    Transpose transpose_b, const Tensor* bias, const Tensor& c);

// c += op(a) op(b), without a bias and with an fp32 c: a product's part over some of
// what is summed.
absl::Status MatMulAdd(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                       Transpose transpose_b, const Tensor& c);

// Whether this processor multiplies bf16 matrices in hardware. Without it they
// are multiplied as fp32: the same function, slower than fp32 itself.
bool BFloat16IsFast();

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_MATMUL_H_
