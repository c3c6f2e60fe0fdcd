#include "kernels/cuda/fused_product.h"

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "core/cuda_lane.h"
#include "core/status.h"

namespace tessera::kernels::cuda {
namespace {

// The largest power of two up to 16 bytes, the most that a load asks for, on which
// all of them start.
int CommonAlignment(std::initializer_list<const void*> pointers) {
  uintptr_t bits = 16;
  for (const void* pointer : pointers) bits |= reinterpret_cast<uintptr_t>(pointer);
  return 1 << std::countr_zero(bits);
}

int64_t Columns(const Tensor& tensor) { return tensor.shape.back(); }

int64_t Rows(const Tensor& tensor) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  return rows;
}

}  // namespace

absl::Status FusedProduct(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                          Transpose transpose_b, Epilogue epilogue, const Tensor* bias,
                          const Tensor* auxiliary, const Tensor& c) {
  ProductShape shape;
  shape.transpose_a = transpose_a == Transpose::kYes;
  shape.transpose_b = transpose_b == Transpose::kYes;
  shape.m = Rows(c);
  shape.n = Columns(c);
  shape.k = shape.transpose_a ? Rows(a) : Columns(a);
  TESSERA_CHECK((shape.transpose_a ? Columns(a) : Rows(a)) == shape.m &&
                    (shape.transpose_b ? Rows(b) : Columns(b)) == shape.n &&
                    (shape.transpose_b ? Columns(b) : Rows(b)) == shape.k,
                "extents differ");
  TESSERA_CHECK(a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == DType::kFloat32), "dtypes");
  TESSERA_CHECK(bias == nullptr || bias->elements() == shape.n, "bias");
  TESSERA_CHECK(auxiliary == nullptr ||
                    (auxiliary->dtype == c.dtype && auxiliary->elements() == c.elements()),
                "auxiliary");
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) {
    return absl::UnimplementedError("a matrix product of nothing");
  }
  shape.input = a.dtype;
  shape.output = c.dtype;
  shape.epilogue = epilogue;
  if (bias != nullptr) shape.bias = bias->dtype;
  const ProductOperands operands = {
      .a = a.data,
      .b = b.data,
      .d = c.data,
      .bias = bias == nullptr ? nullptr : bias->data,
      .auxiliary = auxiliary == nullptr ? nullptr : auxiliary->data,
  };
  shape.alignment =
      CommonAlignment({operands.a, operands.b, operands.d, operands.bias, operands.auxiliary});
  CudaLane& cuda_lane = CudaLaneOf(lane);
  TESSERA_ASSIGN_OR_RETURN(const CublasLtProduct* product,
                           CublasLtProduct::Get(cuda_lane, shape, operands));
  return product->Run(cuda_lane, operands);
}

}  // namespace tessera::kernels::cuda
