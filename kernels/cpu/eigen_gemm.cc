// Gemm without oneDNN, for a program that is to run on any machine.

#include <Eigen/Core>
#include <memory>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/widen.h"

namespace tessera::kernels {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename M>
using View = Eigen::Map<M, Eigen::Unaligned, Eigen::OuterStride<>>;

// In fp32: bf16 operands are widened first, and a bf16 result is rounded once.
class EigenGemm final : public Gemm {
 public:
  explicit EigenGemm(const GemmShape& shape) : shape_(shape) {}

  void Run(const void* a, const void* b, const void* bias, void* c) const override {
    const GemmShape& shape = shape_;
    const bool a_is_transposed = shape.transpose_a == Transpose::kYes;
    const bool b_is_transposed = shape.transpose_b == Transpose::kYes;
    float* const wide_a =
        Scratch<float>(ScratchUse::kWidenedGemm,
                       shape.m * shape.k + shape.k * shape.n + shape.n + shape.m * shape.n);
    float* const wide_b = wide_a + shape.m * shape.k;
    float* const wide_bias = wide_b + shape.k * shape.n;
    float* const wide_c = wide_bias + shape.n;
    const auto stored_a = a_is_transposed ? Widened(a, shape.k, shape.m, shape.a_stride, wide_a)
                                          : Widened(a, shape.m, shape.k, shape.a_stride, wide_a);
    const auto stored_b = b_is_transposed ? Widened(b, shape.n, shape.k, shape.b_stride, wide_b)
                                          : Widened(b, shape.k, shape.n, shape.b_stride, wide_b);
    const bool rounds = shape.output == DType::kBFloat16;
    View<Matrix> product(rounds ? wide_c : static_cast<float*>(c), shape.m, shape.n,
                         Eigen::OuterStride<>(rounds ? shape.n : shape.c_stride));
    if (bias != nullptr) {
      product.rowwise() = Widened(bias, 1, shape.n, shape.n, wide_bias).row(0);
    } else if (!shape.accumulate) {
      product.setZero();
    }
    if (a_is_transposed && b_is_transposed) {
      product.noalias() += stored_a.transpose() * stored_b.transpose();
    } else if (a_is_transposed) {
      product.noalias() += stored_a.transpose() * stored_b;
    } else if (b_is_transposed) {
      product.noalias() += stored_a * stored_b.transpose();
    } else {
      product.noalias() += stored_a * stored_b;
    }
    if (!rounds) return;
    Narrow(wide_c, shape.m, shape.n, shape.c_stride, c);
  }

 private:
  // The operand itself if it is fp32, and else a copy in `wide`.
  View<const Matrix> Widened(const void* operand, int64_t rows, int64_t columns, int64_t stride,
                             float* wide) const {
    if (shape_.input == DType::kFloat32) {
      return {static_cast<const float*>(operand), rows, columns, Eigen::OuterStride<>(stride)};
    }
    Widen(operand, rows, columns, stride, wide);
    return {wide, rows, columns, Eigen::OuterStride<>(columns)};
  }

  const GemmShape shape_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<const Gemm>> Gemm::Make(const GemmShape& shape) {
  return std::make_unique<EigenGemm>(shape);
}

bool BFloat16IsFast() { return false; }

}  // namespace tessera::kernels
