#include "kernels/matmul.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/cuda_lane.h"
#include "core/status.h"
#include "kernels/cuda/cublaslt_product.h"

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

absl::Status MatMul(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                    Transpose transpose_b, const Tensor* bias, const Tensor& c) {
  const auto columns = [](const Tensor& t) { return t.shape.back(); };
  const auto rows = [](const Tensor& t) {
    int64_t product = 1;
    for (size_t i = 0; i + 1 < t.shape.size(); ++i) product *= t.shape[i];
    return product;
  };
  ProductShape shape;
  shape.transpose_a = transpose_a == Transpose::kYes;
  shape.transpose_b = transpose_b == Transpose::kYes;
  shape.m = shape.transpose_a ? columns(a) : rows(a);
  shape.k = shape.transpose_a ? rows(a) : columns(a);
  shape.n = shape.transpose_b ? rows(b) : columns(b);
  TESSERA_CHECK((shape.transpose_b ? columns(b) : rows(b)) == shape.k, "inner extents differ");
  TESSERA_CHECK(rows(c) == shape.m && columns(c) == shape.n, "output has another shape");
  TESSERA_CHECK(a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == DType::kFloat32), "dtypes");
  TESSERA_CHECK(bias == nullptr || (bias->dtype == a.dtype && bias->elements() == shape.n), "bias");
  if (shape.m == 0 || shape.n == 0) return absl::OkStatus();
  CudaLane& cuda_lane = CudaLaneOf(lane);
  if (shape.k == 0 && bias == nullptr) {
    return CudaStatus(
        cudaMemsetAsync(c.data, 0, static_cast<size_t>(c.bytes()), cuda_lane.stream()),
        "cudaMemsetAsync");
  }
  shape.input = a.dtype;
  shape.output = c.dtype;
  shape.bias = bias != nullptr;
  const void* const bias_data = bias == nullptr ? nullptr : bias->data;
  shape.alignment = CommonAlignment({a.data, b.data, c.data, bias_data});
  TESSERA_ASSIGN_OR_RETURN(const CublasLtProduct* product, CublasLtProduct::Get(cuda_lane, shape));
  return product->Run(cuda_lane, a.data, b.data, bias_data, c.data);
}

}  // namespace tessera::kernels::cuda
