#include "kernels/matmul.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/matmul_reference.h"

namespace tessera::kernels {
namespace {

class CudaMatMulTest : public CudaTest {
 protected:
  void Check(const MatMulCase& c) {
    SCOPED_TRACE(NameOf(c));
    const Array a = MakeMatrix(c.input, c.m, c.k, c.transpose_a, 1);
    const Array b = MakeMatrix(c.input, c.k, c.n, c.transpose_b, 2);
    const Array bias = RandomArray(c.input, {c.n}, 3);
    const Array out(c.output, {c.m, c.n});
    const std::vector<Array> results =
        RunKernel(lane(), {&a, &b, &bias, &out}, [&c](Lane& lane, const auto& t) {
          return MatMul(lane, t[0], c.transpose_a, t[1], c.transpose_b, c.bias ? &t[2] : nullptr,
                        t[3]);
        });
    ExpectClose(results[3], MatMulReference(c, a, b, bias), Tolerance(c.output), MatMulScale(c));
  }
};

TEST_F(CudaMatMulTest, AgreesWithDoublePrecision) {
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 1, 1}, {3, 48, 5}, {255, 64, 97}, {17, 257, 1}, {8, 768, 16}};
  for (const auto& shape : shapes) {
    for (const Transpose transpose_a : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose transpose_b : {Transpose::kNo, Transpose::kYes}) {
        for (const auto& [input, output] : {std::pair(DType::kFloat32, DType::kFloat32),
                                            std::pair(DType::kBFloat16, DType::kBFloat16),
                                            std::pair(DType::kBFloat16, DType::kFloat32)}) {
          for (const bool bias : {false, true}) {
            Check({shape[0], shape[1], shape[2], transpose_a, transpose_b, input, output, bias});
          }
        }
      }
    }
  }
}

TEST_F(CudaMatMulTest, EmptyExtents) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{0, 3, 2}, {2, 3, 0}, {2, 0, 3}}) {
    for (const bool bias : {false, true}) {
      Check({.m = shape[0], .k = shape[1], .n = shape[2], .bias = bias});
    }
  }
}

TEST_F(CudaMatMulTest, Adds) {
  for (const int64_t k : {0, 1, 64}) {
    for (const DType input : {DType::kFloat32, DType::kBFloat16}) {
      const MatMulCase c = {
          .m = 17, .k = k, .n = 9, .transpose_a = Transpose::kYes, .input = input};
      SCOPED_TRACE(NameOf(c));
      const Array a = MakeMatrix(c.input, c.m, c.k, c.transpose_a, 1);
      const Array b = MakeMatrix(c.input, c.k, c.n, c.transpose_b, 2);
      const Array start = RandomArray(DType::kFloat32, {c.m, c.n}, 3);
      const std::vector<Array> results =
          RunKernel(lane(), {&a, &b, &start}, [&c](Lane& lane, const auto& t) {
            return MatMulAdd(lane, t[0], c.transpose_a, t[1], c.transpose_b, t[2]);
          });
      std::vector<double> expected = MatMulReference(c, a, b, start);
      const std::vector<double> before = start.values();
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
      ExpectClose(results[2], expected, Tolerance(c.output), MatMulScale(c));
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
