#ifndef TESSERA_KERNELS_CUDA_CUBLASLT_PRODUCT_H_
#define TESSERA_KERNELS_CUDA_CUBLASLT_PRODUCT_H_

#include <cublasLt.h>

#include <compare>
#include <cstdint>

#include "absl/status/statusor.h"
#include "core/cuda_lane.h"
#include "core/dtype.h"

namespace tessera::kernels::cuda {

// What a product does beside multiplying, where d [m, n] is what it writes.
enum class Epilogue : uint8_t {
  kNone,
  kAdd,           // adds to what d holds
  kBias,          // adds bias [n]
  kBiasGelu,      // adds bias [n], then GELU
  kBiasGeluKeep,  // and auxiliary [m, n] = what GELU was applied to, rounded
  kGeluGradient,  // times the derivative of GELU at auxiliary [m, n]
  kColumnSum,     // and bias [n] = the sums of the columns of op(b)
};

// d [m, n] = op(a) [m, k] op(b) [k, n], row-major and dense, with fp32 sums. All that
// decides which of cuBLASLt's algorithms is taken.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  DType input = DType::kFloat32;
  DType output = DType::kFloat32;  // and of auxiliary
  Epilogue epilogue = Epilogue::kNone;
  DType bias = DType::kFloat32;  // of bias, if there is one
  int alignment = 16;            // of all pointers, in bytes, as far as it matters

  auto operator<=>(const ProductShape&) const = default;
};

// Its operands; those that its epilogue does not have are null.
struct ProductOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  void* d = nullptr;
  void* bias = nullptr;
  void* auxiliary = nullptr;
};

// One such product in one lane, its algorithm chosen: the first of those that cuBLASLt
// recommends for the shape, so by rule and never by timing. No algorithm that adds
// partial sums in an order of its own is allowed, so the same operands give the same
// bits.
class CublasLtProduct {
 public:
  // From what the lane keeps, where the shape was asked for before, also in vain.
  // `operands` are the first that it is for. Unimplemented, naming the shape, where
  // cuBLASLt has no algorithm for it.
  static absl::StatusOr<const CublasLtProduct*> Get(CudaLane& lane, const ProductShape& shape,
                                                    const ProductOperands& operands);

  explicit CublasLtProduct(const ProductShape& shape) : shape_(shape) {}
  CublasLtProduct(const CublasLtProduct&) = delete;
  CublasLtProduct& operator=(const CublasLtProduct&) = delete;
  ~CublasLtProduct();

  // Issues it in the lane, which has the library's workspace.
  absl::Status Run(CudaLane& lane, const ProductOperands& operands) const;

 private:
  absl::Status Describe();
  absl::Status PointTo(const ProductOperands& operands) const;
  absl::Status Choose(cublasLtHandle_t handle, const ProductOperands& operands);

  const ProductShape shape_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr;   // b, as cuBLASLt's a
  cublasLtMatrixLayout_t second_ = nullptr;  // a
  cublasLtMatrixLayout_t output_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_CUBLASLT_PRODUCT_H_
