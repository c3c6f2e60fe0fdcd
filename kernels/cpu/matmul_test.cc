#include "kernels/matmul.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/gemm.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/matmul_reference.h"

namespace tessera::kernels {
namespace {

void Check(const MatMulCase& c) {
  SCOPED_TRACE(NameOf(c));
  const Array a = MakeMatrix(c.input, c.m, c.k, c.transpose_a, 1);
  const Array b = MakeMatrix(c.input, c.k, c.n, c.transpose_b, 2);
  const Array bias = RandomArray(c.input, {c.n}, 3);
  const Array out(c.output, {c.m, c.n});
  InlineLane lane(2);
  const absl::Status status = MatMul(lane, a.tensor(), c.transpose_a, b.tensor(), c.transpose_b,
                                     c.bias ? &bias.tensor() : nullptr, out.tensor());
  ASSERT_TRUE(status.ok()) << status;
  ExpectClose(out, MatMulReference(c, a, b, bias), Tolerance(c.output), MatMulScale(c));
}

TEST(MatMul, AgreesWithDoublePrecision) {
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 1, 1}, {3, 48, 5}, {255, 64, 97}, {17, 257, 1}, {270, 9, 390}};
  for (const auto& shape : shapes) {
    for (const Transpose transpose_a : {Transpose::kNo, Transpose::kYes}) {
      for (const Transpose transpose_b : {Transpose::kNo, Transpose::kYes}) {
        for (const bool bias : {false, true}) {
          for (const auto& [input, output] : {std::pair(DType::kFloat32, DType::kFloat32),
                                              std::pair(DType::kBFloat16, DType::kBFloat16),
                                              std::pair(DType::kBFloat16, DType::kFloat32)}) {
            Check({shape[0], shape[1], shape[2], transpose_a, transpose_b, input, output, bias});
          }
        }
      }
    }
  }
}

TEST(MatMul, EveryTiling) {
  Check({.m = 3, .k = 16385, .n = 390, .transpose_b = Transpose::kYes});
  // Cut finer, for threads to share.
  Check({.m = 130, .k = 700, .n = 200, .transpose_a = Transpose::kYes, .bias = true});
  const DType bf16 = DType::kBFloat16;
  // Of few columns; with a transposed copy of a; with a copy of c.
  Check({.m = 130,
         .k = 700,
         .n = 300,
         .transpose_a = Transpose::kYes,
         .input = bf16,
         .output = bf16});
  Check({.m = 150,
         .k = 203,
         .n = 801,
         .transpose_a = Transpose::kYes,
         .input = bf16,
         .output = bf16});
  Check({.m = 131, .k = 130, .n = 4100, .transpose_b = Transpose::kYes, .input = bf16});
}

TEST(MatMul, ZeroExtents) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool bias : {false, true}) {
      Check({.m = 0, .k = 3, .n = 4, .input = dtype, .output = dtype, .bias = bias});
      Check({.m = 3, .k = 0, .n = 4, .input = dtype, .output = dtype, .bias = bias});
      Check({.m = 3, .k = 4, .n = 0, .input = dtype, .output = dtype, .bias = bias});
    }
  }
}

// The second half of what is summed, added to the first.
void CheckAdd(const MatMulCase& c) {
  SCOPED_TRACE(NameOf(c));
  const Array a = MakeMatrix(c.input, c.m, c.k, c.transpose_a, 1);
  const Array b = MakeMatrix(c.input, c.k, c.n, c.transpose_b, 2);
  const Array start = RandomArray(DType::kFloat32, {c.m, c.n}, 3);
  const Array out = start.Copy();
  InlineLane lane(2);
  const absl::Status status =
      MatMulAdd(lane, a.tensor(), c.transpose_a, b.tensor(), c.transpose_b, out.tensor());
  ASSERT_TRUE(status.ok()) << status;
  std::vector<double> expected = MatMulReference(c, a, b, start);
  const std::vector<double> before = start.values();
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  ExpectClose(out, expected, Tolerance(c.output), MatMulScale(c));
}

TEST(MatMulAdd, AgreesWithDoublePrecision) {
  const std::vector<std::vector<int64_t>> shapes = {
      {1, 1, 1}, {3, 0, 5}, {3, 48, 5}, {270, 9, 390}, {801, 70, 770}};
  for (const auto& shape : shapes) {
    for (const Transpose transpose_a : {Transpose::kNo, Transpose::kYes}) {
      for (const DType input : {DType::kFloat32, DType::kBFloat16}) {
        CheckAdd({.m = shape[0],
                  .k = shape[1],
                  .n = shape[2],
                  .transpose_a = transpose_a,
                  .input = input});
      }
    }
  }
}

TEST(MatMul, CollapsesAllButTheLastExtent) {
  InlineLane lane(1);
  const Array a(DType::kFloat32, {2, 1, 2}, {1, 2, 3, 4});
  const Array b(DType::kFloat32, {2, 1}, {10, 100});
  const Array c(DType::kFloat32, {2, 1, 1});
  ASSERT_TRUE(
      MatMul(lane, a.tensor(), Transpose::kNo, b.tensor(), Transpose::kNo, nullptr, c.tensor())
          .ok());
  EXPECT_EQ(c.values(), (std::vector<double>{210, 430}));
}

TEST(MatMul, SameBitsForAnyNumberOfThreads) {
  // A weight gradient of a small layer, where a split sum would show.
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Array x = RandomArray(dtype, {2048, 300}, 1);
    const Array gradient = RandomArray(dtype, {2048, 400}, 2);
    ExpectThreadIndependent([&](Lane& lane) {
      std::vector<Array> outputs;
      outputs.emplace_back(dtype, Shape{300, 400});
      EXPECT_TRUE(MatMul(lane, x.tensor(), Transpose::kYes, gradient.tensor(), Transpose::kNo,
                         nullptr, outputs[0].tensor())
                      .ok());
      return outputs;
    });
  }
}

TEST(Gemm, AccumulatesInStridedMemory) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Array a(dtype, {2, 3}, {1, 2, 9, 3, 4, 9});
    const Array b(dtype, {2, 3}, {1, 10, 9, 100, 1000, 9});
    const Array c(DType::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6});
    const auto gemm = Gemm::Get({.m = 2,
                                 .n = 2,
                                 .k = 2,
                                 .a_stride = 3,
                                 .b_stride = 3,
                                 .c_stride = 3,
                                 .input = dtype,
                                 .accumulate = true});
    ASSERT_TRUE(gemm.ok()) << gemm.status();
    (*gemm)->Run(a.bytes(), b.bytes(), nullptr, c.bytes());
    EXPECT_EQ(c.values(), (std::vector<double>{202, 2012, 3, 407, 4035, 6}));
  }
}

}  // namespace
}  // namespace tessera::kernels
