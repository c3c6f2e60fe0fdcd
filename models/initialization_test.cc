#include "models/initialization.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

ParameterSpec Normal(float deviation) {
  return {"weight", {100003}, ParameterSpec::Initialization::kNormal, deviation, false};
}

std::vector<float> Values(const ParameterSpec& parameter, uint64_t seed, uint32_t stream,
                          int64_t first, int64_t count) {
  std::vector<float> values(count, std::nanf(""));
  InitializeParameter(parameter, seed, stream, first, absl::MakeSpan(values));
  return values;
}

TEST(InitializeParameter, AnyPartCanBeMadeAlone) {
  const std::vector<float> whole = Values(Normal(0.02f), 3, 7, 0, 1001);
  for (int64_t length : {1, 2, 3, 5, 64, 333}) {
    for (int64_t first = 0; first < 1001; first += length) {
      const int64_t count = std::min<int64_t>(length, 1001 - first);
      const std::vector<float> expected(whole.begin() + first, whole.begin() + first + count);
      ASSERT_EQ(Values(Normal(0.02f), 3, 7, first, count), expected);
    }
  }
}

TEST(InitializeParameter, SeedsAndStreamsDiffer) {
  const std::vector<float> values = Values(Normal(1), 3, 7, 0, 8);
  EXPECT_NE(Values(Normal(1), 4, 7, 0, 8), values);
  EXPECT_NE(Values(Normal(1), 3, 8, 0, 8), values);
}

TEST(InitializeParameter, NormalHasTheMomentsOfANormal) {
  constexpr int kCount = 100003;
  double sum = 0, squares = 0, fourths = 0, neighbours = 0, previous = 0;
  int beyond_two = 0;
  for (float value : Values(Normal(0.5f), 1, 1, 0, kCount)) {
    const double x = value / 0.5;
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    neighbours += x * previous;
    previous = x;
    beyond_two += std::abs(x) > 2;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.015);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourths / kCount, 3, 0.15);
  EXPECT_NEAR(neighbours / kCount, 0, 0.015);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, 0.0455, 0.003);
}

TEST(InitializeParameter, Constants) {
  ParameterSpec parameter{"bias", {5}};
  EXPECT_EQ(Values(parameter, 1, 1, 0, 5), std::vector<float>(5, 0));
  parameter.initialization = ParameterSpec::Initialization::kOnes;
  EXPECT_EQ(Values(parameter, 1, 1, 0, 5), std::vector<float>(5, 1));
}

}  // namespace
}  // namespace tessera
