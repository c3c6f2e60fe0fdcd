#include "kernels/cuda/fused_product.h"

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "core/cuda_lane.h"
#include "core/status.h"
#include "kernels/matmul_shape.h"

namespace tessera::kernels::cuda {
namespace {

// The largest power of two up to 16 bytes, the most that a load asks for, on which
// all of them start.
int CommonAlignment(std::initializer_list<const void*> pointers) {
  uintptr_t bits = 16;
  for (const void* pointer : pointers) bits |= reinterpret_cast<uintptr_t>(pointer);
  return 1 << std::countr_zero(bits);
}

}  // namespace

absl::Status FusedProduct(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                          Transpose transpose_b, Epilogue epilogue, const Tensor* bias,
                          const Tensor* auxiliary, const Tensor& c) {
  const auto [m, n, k] = MatMulShapeOf(a, transpose_a, b, transpose_b, bias, c);
  TESSERA_CHECK(auxiliary == nullptr ||
                    (auxiliary->dtype == c.dtype && auxiliary->elements() == c.elements()),
                "auxiliary");
  if (m == 0 || n == 0 || k == 0) {
    return absl::UnimplementedError("a matrix product of nothing");
  }
  ProductShape shape = {.m = m,
                        .n = n,
                        .k = k,
                        .transpose_a = transpose_a == Transpose::kYes,
                        .transpose_b = transpose_b == Transpose::kYes,
                        .input = a.dtype,
                        .output = c.dtype,
                        .epilogue = epilogue};
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
