#include "kernels/square_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/exact_sum.h"
#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

double ValueOf(const Array& accumulator) {
  ExactSum sum;
  std::memcpy(sum.words.data(), accumulator.bytes(), sizeof(sum.words));
  return sum.Value();
}

Tensor Part(const Tensor& whole, int64_t first, int64_t count) {
  return {static_cast<std::byte*>(whole.data) + first * SizeOf(whole.dtype), whole.dtype, {count}};
}

TEST(SquareNorm, MatchesDoubles) {
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t elements : {0, 1, 15, 1023, 1024, 1025, 100003}) {
      const Array x = RandomArray(dtype, {elements}, 1, 3);
      long double expected = 0;
      for (double value : x.values()) expected += static_cast<long double>(value) * value;
      const Array accumulator(DType::kInt64, {ExactSum::kWords});
      ASSERT_TRUE(SquareNorm(lane, x.tensor(), accumulator.tensor(), false).ok());
      EXPECT_NEAR(ValueOf(accumulator), static_cast<double>(expected),
                  1e-14 * static_cast<double>(expected));
    }
  }
}

TEST(SquareNorm, CutsAtChunksDoNotMatter) {
  InlineLane lane(2);
  const Array x = SpreadArray(DType::kFloat32, {100003}, 2);
  const Array whole(DType::kInt64, {ExactSum::kWords});
  ASSERT_TRUE(SquareNorm(lane, x.tensor(), whole.tensor(), false).ok());
  for (int64_t chunks : {1, 7, 64, 65}) {
    const int64_t length = chunks * kSquareNormChunk;
    const Array parts(DType::kInt64, {ExactSum::kWords});
    // From the last part to the first: their order does not matter either.
    const int64_t last = (x.tensor().elements() - 1) / length;
    for (int64_t part = last; part >= 0; --part) {
      const int64_t first = part * length;
      const int64_t count = std::min(length, x.tensor().elements() - first);
      ASSERT_TRUE(
          SquareNorm(lane, Part(x.tensor(), first, count), parts.tensor(), part != last).ok());
    }
    EXPECT_EQ(ValueOf(parts), ValueOf(whole));
  }
}

TEST(SquareNorm, LargeAndInvalidValues) {
  InlineLane lane(1);
  const Array accumulator(DType::kInt64, {ExactSum::kWords});
  const Array large(DType::kFloat32, {2}, {0x1.fffffep127, 0x1p-149});
  ASSERT_TRUE(SquareNorm(lane, large.tensor(), accumulator.tensor(), false).ok());
  EXPECT_EQ(ValueOf(accumulator), 0x1.fffffep127 * 0x1.fffffep127);
  const Array nan(DType::kFloat32, {2}, {1, std::numeric_limits<double>::quiet_NaN()});
  ASSERT_TRUE(SquareNorm(lane, nan.tensor(), accumulator.tensor(), true).ok());
  EXPECT_TRUE(std::isnan(ValueOf(accumulator)));
}

TEST(SquareNorm, ThreadsDoNotMatter) {
  const Array x = SpreadArray(DType::kBFloat16, {300001}, 3);
  ExpectThreadIndependent([&](Lane& lane) {
    const Array accumulator(DType::kInt64, {ExactSum::kWords});
    EXPECT_TRUE(SquareNorm(lane, x.tensor(), accumulator.tensor(), false).ok());
    std::vector<Array> outputs;
    outputs.emplace_back(DType::kFloat64, Shape{1}, std::vector<double>{ValueOf(accumulator)});
    return outputs;
  });
}

}  // namespace
}  // namespace tessera::kernels
