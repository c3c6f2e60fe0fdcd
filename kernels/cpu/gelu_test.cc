#include "kernels/gelu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/testing/gelu_reference.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

TEST(Exp, IsWithinTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (float x = -87.3f; x < 88.0f; x += 0.00371f) {
    const double exact = std::exp(static_cast<double>(x));
    const float upper = static_cast<float>(exact);
    const double unit = std::nextafter(upper, INFINITY) - upper;
    worst = std::max(worst, std::abs(Exp(x) - exact) / unit);
  }
  EXPECT_LE(worst, 2);
  EXPECT_EQ(Exp(0), 1);
}

TEST(Exp, Extremes) {
  EXPECT_LE(Exp(-INFINITY), 0x1.01p-126f);
  EXPECT_GE(Exp(-INFINITY), 0);
  EXPECT_EQ(Exp(1000), Exp(88));
  EXPECT_TRUE(std::isnan(Exp(NAN)));
}

TEST(Reduce, EveryCountAndPosition) {
  for (int64_t count = 0; count < 70; ++count) {
    EXPECT_EQ(Sum(count, [](int64_t i) { return static_cast<float>(i + 1); }),
              0.5f * static_cast<float>(count * (count + 1)));
    for (int64_t largest = 0; largest < count; ++largest) {
      std::vector<float> values(static_cast<size_t>(count), -3);
      values[static_cast<size_t>(largest)] = -2;
      EXPECT_EQ(Max(values.data(), count), -2);
    }
  }
}

class GeluTest : public testing::TestWithParam<DType> {};

TEST_P(GeluTest, AgreesWithDoublePrecision) {
  InlineLane lane(2);
  for (const int64_t elements : {0, 1, 17, 16384 + 3}) {
    const Array x = RandomArray(GetParam(), {elements}, 1, 12);
    const Array dy = RandomArray(GetParam(), {elements}, 2);
    const Array y(GetParam(), {elements});
    const Array dx(GetParam(), {elements});
    ASSERT_TRUE(GeluForward(lane, x.tensor(), y.tensor()).ok());
    ASSERT_TRUE(GeluBackward(lane, x.tensor(), dy.tensor(), y.tensor(), dx.tensor()).ok());
    const std::vector<double> at = x.values();
    const std::vector<double> upstream = dy.values();
    std::vector<double> expected_y;
    std::vector<double> expected_dx;
    for (size_t i = 0; i < at.size(); ++i) {
      expected_y.push_back(GeluReference(at[i]));
      expected_dx.push_back(upstream[i] * GeluDerivativeReference(at[i]));
    }
    const double tolerance = GetParam() == DType::kBFloat16 ? Tolerance(GetParam()) : 1e-6;
    ExpectClose(y, expected_y, tolerance, 0.1);
    ExpectClose(dx, expected_dx, tolerance);
  }
}

TEST_P(GeluTest, KeepsRelativeAccuracyInTheTail) {
  InlineLane lane(1);
  const Array x(GetParam(), {3}, {-5, -3, -1});
  const Array y(GetParam(), {3});
  ASSERT_TRUE(GeluForward(lane, x.tensor(), y.tensor()).ok());
  std::vector<double> expected;
  for (const double at : x.values()) expected.push_back(GeluReference(at));
  ExpectClose(y, expected, Tolerance(GetParam()), 0);
}

TEST_P(GeluTest, InPlaceAndOnAnyNumberOfThreads) {
  const Array x = RandomArray(GetParam(), {3, 16385}, 1, 4);
  const Array dy = RandomArray(GetParam(), {3, 16385}, 2);
  ExpectThreadIndependent([&](Lane& lane) {
    std::vector<Array> outputs;
    outputs.emplace_back(GetParam(), x.tensor().shape);
    outputs.emplace_back(GetParam(), x.tensor().shape, dy.values());
    EXPECT_TRUE(GeluForward(lane, x.tensor(), outputs[0].tensor()).ok());
    outputs.emplace_back(GetParam(), x.tensor().shape);
    EXPECT_TRUE(GeluBackward(lane, x.tensor(), outputs[1].tensor(), outputs[2].tensor(),
                             outputs[1].tensor())
                    .ok());
    EXPECT_EQ(outputs[2].values(), outputs[0].values());
    return outputs;
  });
}

INSTANTIATE_TEST_SUITE_P(DTypes, GeluTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
