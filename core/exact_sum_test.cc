#include "core/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

double Sum(const std::vector<double>& values) {
  ExactSum sum;
  for (double value : values) sum.Add(value);
  return sum.Value();
}

TEST(ExactSum, SingleValuesComeBackExactly) {
  constexpr double kTiny = std::numeric_limits<double>::denorm_min();
  constexpr double kLargest = std::numeric_limits<double>::max();
  for (double value : {0.0, 1.0, -1.0, 0.1, kTiny, -kTiny, 3 * kTiny, 0x1.fffffffffffffp-1023,
                       0x1p-1022, 0x1.8p-1040, kLargest, -kLargest, 0x1.23456789abcdep500}) {
    EXPECT_EQ(Sum({value}), value);
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) {
      ASSERT_EQ(Sum({value}), value);
    }
  }
}

TEST(ExactSum, RoundsToNearestEven) {
  EXPECT_EQ(Sum({1, 0x1p-53}), 1);
  EXPECT_EQ(Sum({1, 0x1p-53, 0x1p-1074}), 1 + 0x1p-52);
  EXPECT_EQ(Sum({1 + 0x1p-52, 0x1p-53}), 1 + 0x1p-51);
  EXPECT_EQ(Sum({-1, -0x1p-53, -0x1p-1074}), -1 - 0x1p-52);
  EXPECT_EQ(Sum({0x1.fffffffffffffp0, 0x1p-53}), 2);
  EXPECT_EQ(Sum({0x1p1023, 1, -0x1p1023}), 1);
  EXPECT_EQ(Sum({0x1p1023, 0x1p-1074, -0x1p1023}), 0x1p-1074);
}

TEST(ExactSum, OverflowsOnlyAtTheEnd) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  EXPECT_EQ(Sum({kLargest, kLargest}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(Sum({kLargest, kLargest, -kLargest}), kLargest);
  EXPECT_EQ(Sum({-kLargest, -kLargest, -kLargest}), -std::numeric_limits<double>::infinity());
}

TEST(ExactSum, NanAndInfinity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Sum({1, kInfinity}), kInfinity);
  EXPECT_EQ(Sum({-kInfinity, 5}), -kInfinity);
  EXPECT_TRUE(std::isnan(Sum({kInfinity, -kInfinity})));
  EXPECT_TRUE(std::isnan(Sum({1, std::numeric_limits<double>::quiet_NaN()})));
}

// Two doubles' sum is correctly rounded by the hardware.
TEST(ExactSum, PairsMatchTheHardware) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 50000; ++i) {
    const double a = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                static_cast<int>(random() % 130) - 65);
    const double b = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                static_cast<int>(random() % 130) - 65);
    ASSERT_EQ(Sum({a, b}), a + b) << a << " " << b;
  }
  for (int i = 0; i < 20000; ++i) {
    const double a = std::bit_cast<double>(random());
    const double b = std::bit_cast<double>((std::bit_cast<uint64_t>(a) & 0x7ff0000000000000) |
                                           (random() & 0x800fffffffffffff));
    if (std::isfinite(a)) {
      ASSERT_EQ(Sum({a, b}), a + b) << a << " " << b;
    }
  }
}

TEST(ExactSum, OrderAndSplitDoNotMatter) {
  std::mt19937_64 random(3);
  std::vector<double> values(3000);
  for (double& value : values) {
    value = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                       static_cast<int>(random() % 1600) - 900);
  }
  const double expected = Sum(values);
  for (int round = 0; round < 10; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    std::vector<ExactSum> parts(1 + round);
    for (double value : values) parts[random() % parts.size()].Add(value);
    ExactSum total;
    for (const ExactSum& part : parts) total.Merge(part);
    EXPECT_EQ(total.Value(), expected);
  }
}

// Integers up to 2^60 add exactly in 128 bits.
TEST(ExactSum, MatchesIntegerArithmetic) {
  std::mt19937_64 random(4);
  ExactSum sum;
  __int128 expected = 0;
  for (int i = 0; i < 100000; ++i) {
    const double value = std::round(std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                               -static_cast<int>(random() % 60)));
    sum.Add(value);
    expected += static_cast<__int128>(value);
    if (i % 1000 == 0) {
      ASSERT_EQ(sum.Value(), static_cast<double>(expected));
    }
  }
}

}  // namespace
}  // namespace tessera
