#include "kernels/matmul.h"

#include "core/status.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(MatMul);
TESSERA_DECLARE_BACKENDS(MatMulAdd);

absl::Status MatMul(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                    Transpose transpose_b, const Tensor* bias, const Tensor& c) {
  TESSERA_CHECK(bias == nullptr || bias->dtype == a.dtype, "bias");
  TESSERA_DISPATCH(MatMul, lane, a, transpose_a, b, transpose_b, bias, c);
}

absl::Status MatMulAdd(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                       Transpose transpose_b, const Tensor& c) {
  TESSERA_CHECK(c.dtype == DType::kFloat32, "sums are fp32");
  TESSERA_DISPATCH(MatMulAdd, lane, a, transpose_a, b, transpose_b, c);
}

}  // namespace tessera::kernels
