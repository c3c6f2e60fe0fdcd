#ifndef TESSERA_KERNELS_CPU_GEMM_H_
#define TESSERA_KERNELS_CPU_GEMM_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/dtype.h"
#include "kernels/matmul.h"

namespace tessera::kernels {

// c [m, n] = op(a) [m, k] op(b) [k, n] + bias [n], or += without a bias. Strides
// are the elements from one stored row to the next.
struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t a_stride = 0;
  int64_t b_stride = 0;
  int64_t c_stride = 0;
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  DType input = DType::kFloat32;   // of a, b and bias: fp32 or bf16
  DType output = DType::kFloat32;  // of c: `input` or fp32
  bool bias = false;
  bool accumulate = false;  // fp32 outputs only

  auto operator<=>(const GemmShape&) const = default;
  std::string Describe() const;
};

// A bf16 product with a transposed a is fastest on whole rows of c from this many
// columns on, and below that on tiles of 128 x 256.
inline constexpr int64_t kDenseColumns = 768;

// A product of one shape, on the calling thread alone: the tile of the kernels
// that multiply matrices. The extents must be positive.
class Gemm {
 public:
  virtual ~Gemm() = default;

  // The one Gemm of this shape, made at its first use and never destroyed.
  // Callable from any thread.
  static absl::StatusOr<const Gemm*> Get(const GemmShape& shape);

  // Callable from several threads at once. `bias` is null without a bias.
  virtual void Run(const void* a, const void* b, const void* bias, void* c) const = 0;

 private:
  // The one of the library that the program is built with.
  static absl::StatusOr<std::unique_ptr<const Gemm>> Make(const GemmShape& shape);
};

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_GEMM_H_
