#include "kernels/matmul.h"

#include "core/cuda_lane.h"
#include "core/status.h"
#include "kernels/cuda/fused_product.h"
#include "kernels/elementwise.h"

namespace tessera::kernels::cuda {

decltype(kernels::Convert) Convert;

namespace {

// c = the sum over nothing.
absl::Status EmptyProduct(Lane& lane, const Tensor* bias, const Tensor& c) {
  if (bias == nullptr) {
    return CudaStatus(
        cudaMemsetAsync(c.data, 0, static_cast<size_t>(c.bytes()), CudaLaneOf(lane).stream()),
        "cudaMemsetAsync");
  }
  const int64_t columns = bias->elements();
  for (int64_t first = 0; first < c.elements(); first += columns) {
    auto* const row = static_cast<std::byte*>(c.data) + first * SizeOf(c.dtype);
    TESSERA_RETURN_IF_ERROR(cuda::Convert(lane, *bias, {row, c.dtype, {columns}}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MatMul(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                    Transpose transpose_b, const Tensor* bias, const Tensor& c) {
  if (c.elements() == 0) return absl::OkStatus();
  if (a.elements() == 0) return EmptyProduct(lane, bias, c);
  return FusedProduct(lane, a, transpose_a, b, transpose_b,
                      bias == nullptr ? Epilogue::kNone : Epilogue::kBias, bias, nullptr, c);
}

absl::Status MatMulAdd(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                       Transpose transpose_b, const Tensor& c) {
  if (c.elements() == 0 || a.elements() == 0) return absl::OkStatus();
  return FusedProduct(lane, a, transpose_a, b, transpose_b, Epilogue::kAdd, nullptr, nullptr, c);
}

}  // namespace tessera::kernels::cuda
