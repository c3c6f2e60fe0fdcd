#include "kernels/matmul.h"

#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(MatMul);

absl::Status MatMul(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                    Transpose transpose_b, const Tensor* bias, const Tensor& c) {
  TESSERA_DISPATCH(MatMul, lane, a, transpose_a, b, transpose_b, bias, c);
}

}  // namespace tessera::kernels
