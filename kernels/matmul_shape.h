#ifndef TESSERA_KERNELS_MATMUL_SHAPE_H_
#define TESSERA_KERNELS_MATMUL_SHAPE_H_

#include <cstdint>

#include "core/status.h"
#include "core/tensor.h"
#include "kernels/matmul.h"

namespace tessera::kernels {

// A tensor seen as a matrix: all but the last extent collapsed.
inline int64_t MatrixColumns(const Tensor& tensor) {
  TESSERA_CHECK(!tensor.shape.empty(), "a scalar is no matrix");
  return tensor.shape.back();
}

inline int64_t MatrixRows(const Tensor& tensor) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  return rows;
}

// c [m, n] = op(a) [m, k] op(b) [k, n].
struct MatMulShape {
  int64_t m, n, k;
};

// Checks that tensors fit together as MatMul's; `bias` may be null, and of any type.
inline MatMulShape MatMulShapeOf(const Tensor& a, Transpose transpose_a, const Tensor& b,
                                 Transpose transpose_b, const Tensor* bias, const Tensor& c) {
  const bool a_is_transposed = transpose_a == Transpose::kYes;
  const bool b_is_transposed = transpose_b == Transpose::kYes;
  const MatMulShape shape = {.m = a_is_transposed ? MatrixColumns(a) : MatrixRows(a),
                             .n = b_is_transposed ? MatrixRows(b) : MatrixColumns(b),
                             .k = a_is_transposed ? MatrixRows(a) : MatrixColumns(a)};
  TESSERA_CHECK((b_is_transposed ? MatrixColumns(b) : MatrixRows(b)) == shape.k,
                "inner extents differ");
  TESSERA_CHECK(MatrixRows(c) == shape.m && MatrixColumns(c) == shape.n,
                "output has another shape");
  TESSERA_CHECK(a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == DType::kFloat32), "dtypes");
  TESSERA_CHECK(bias == nullptr || bias->elements() == shape.n, "bias");
  return shape;
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_MATMUL_SHAPE_H_
