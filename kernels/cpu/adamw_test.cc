#include "kernels/adamw.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

constexpr double kLearningRate = 3e-3;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.95;
constexpr double kEpsilon = 1e-8;
constexpr double kDecay = 0.1;
constexpr double kClip = 0.37;

AdamWScalars Scalars(int step) {
  return MakeAdamWScalars(kLearningRate, kBeta1, kBeta2, kEpsilon, kDecay, step);
}

struct State {
  explicit State(int64_t elements)
      : master(RandomArray(DType::kFloat32, {elements}, 1)),
        first_moment(DType::kFloat32, {elements}, std::vector<double>(elements)),
        second_moment(DType::kFloat32, {elements}, std::vector<double>(elements)),
        parameter(DType::kBFloat16, {elements}) {}
  void Step(Lane& lane, int step, const Array& gradient) {
    EXPECT_TRUE(AdamW(lane, Scalars(step), gradient.tensor(), &kClip, master.tensor(),
                      first_moment.tensor(), second_moment.tensor(), &parameter.tensor())
                    .ok());
  }
  Array master, first_moment, second_moment, parameter;
};

TEST(AdamW, FollowsDoublesForTenSteps) {
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t elements : {0, 1, 15, 1023, 1024, 1025, 100003}) {
      State state(elements);
      std::vector<double> p = state.master.values();
      std::vector<double> m(elements);
      std::vector<double> v(elements);
      for (int step = 1; step <= 10; ++step) {
        const Array gradient = RandomArray(dtype, {elements}, 10 + step);
        state.Step(lane, step, gradient);
        const std::vector<double> g = gradient.values();
        for (int64_t i = 0; i < elements; ++i) {
          p[i] -= kLearningRate * kDecay * p[i];
          m[i] = kBeta1 * m[i] + (1 - kBeta1) * kClip * g[i];
          v[i] = kBeta2 * v[i] + (1 - kBeta2) * kClip * g[i] * kClip * g[i];
          const double denominator = std::sqrt(v[i] / (1 - std::pow(kBeta2, step))) + kEpsilon;
          p[i] -= kLearningRate / (1 - std::pow(kBeta1, step)) * m[i] / denominator;
        }
      }
      // One rounding of the parameter a step, of half a unit in the last place.
      constexpr double kUlp = 0x1p-23;
      ExpectClose(state.master, p, 10 * kUlp, 0.1);
      ExpectClose(state.first_moment, m, 4 * kUlp, 0.1);
      ExpectClose(state.second_moment, v, 10 * kUlp, 0);
      EXPECT_TRUE(
          Array(DType::kBFloat16, {elements}, state.master.values()).SameBits(state.parameter));
    }
  }
}

TEST(AdamW, EveryElementIsTheOneFunction) {
  InlineLane lane(3);
  const int64_t elements = 20011;
  State state(elements);
  const State before(elements);
  const Array gradient = RandomArray(DType::kFloat32, {elements}, 5);
  state.Step(lane, 1, gradient);
  for (int64_t i = 0; i < elements; ++i) {
    float p = before.master.tensor().as<float>()[i];
    float m = 0;
    float v = 0;
    const float g = gradient.tensor().as<float>()[i] * static_cast<float>(kClip);
    AdamWUpdate(Scalars(1), g, p, m, v);
    ASSERT_EQ(p, state.master.tensor().as<float>()[i]);
    ASSERT_EQ(m, state.first_moment.tensor().as<float>()[i]);
    ASSERT_EQ(v, state.second_moment.tensor().as<float>()[i]);
  }
}

TEST(AdamW, WithoutClippingAndWithoutACopy) {
  InlineLane lane(1);
  const double one = 1;
  State clipped(1025);
  State plain(1025);
  const Array gradient = RandomArray(DType::kFloat32, {1025}, 5);
  ASSERT_TRUE(AdamW(lane, Scalars(1), gradient.tensor(), &one, clipped.master.tensor(),
                    clipped.first_moment.tensor(), clipped.second_moment.tensor(), nullptr)
                  .ok());
  ASSERT_TRUE(AdamW(lane, Scalars(1), gradient.tensor(), nullptr, plain.master.tensor(),
                    plain.first_moment.tensor(), plain.second_moment.tensor(), nullptr)
                  .ok());
  EXPECT_TRUE(clipped.master.SameBits(plain.master));
  EXPECT_TRUE(std::isnan(plain.parameter.values()[0]));  // nothing was written there
}

TEST(RoundStochastically, IsRightOnAverage) {
  constexpr int kWords = 1 << 16;
  for (const float value : {1.0f, 1.001f, -3.1415926f, 1e-40f, 0.0f, -65280.5f}) {
    double sum = 0;
    for (uint32_t word = 0; word < kWords; ++word) {
      const float rounded = RoundStochastically(value, word << 16);
      EXPECT_EQ(static_cast<float>(BFloat16(rounded)), rounded);
      sum += rounded;
    }
    EXPECT_EQ(sum / kWords, value);  // of every word once: exactly
  }
}

TEST(RoundStochastically, KeepsInfinitiesAndNans) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(RoundStochastically(infinity, 0xffffffffu), infinity);
  EXPECT_EQ(RoundStochastically(-infinity, 0xffffffffu), -infinity);
  EXPECT_TRUE(std::isnan(RoundStochastically(NAN, 0xffffffffu)));
}

TEST(AdamW, RoundsStochastically) {
  InlineLane lane(2);
  const int64_t elements = 3001;
  const StochasticRounding rounding = {{7, RandomPurpose::kRounding, 3, 0, 11}, 4 * 12345};
  State state(elements);
  const Array gradient = RandomArray(DType::kFloat32, {elements}, 5);
  ASSERT_TRUE(AdamW(lane, Scalars(1), gradient.tensor(), nullptr, state.master.tensor(),
                    state.first_moment.tensor(), state.second_moment.tensor(),
                    &state.parameter.tensor(), &rounding)
                  .ok());
  int64_t to_nearest = 0;
  for (int64_t i = 0; i < elements; ++i) {
    const float master = state.master.tensor().as<float>()[i];
    const uint32_t word = rounding.key.Word(rounding.first + i);
    const auto copy = static_cast<float>(state.parameter.tensor().as<BFloat16>()[i]);
    ASSERT_EQ(copy, RoundStochastically(master, word));
    to_nearest += copy == static_cast<float>(BFloat16(master)) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(to_nearest) / elements, 0.75, 0.05);
}

TEST(AdamW, ThreadsDoNotMatter) {
  const Array gradient = RandomArray(DType::kBFloat16, {100003}, 5);
  ExpectThreadIndependent([&](Lane& lane) {
    State state(100003);
    state.Step(lane, 1, gradient);
    state.Step(lane, 2, gradient);
    std::vector<Array> outputs;
    outputs.push_back(std::move(state.master));
    outputs.push_back(std::move(state.parameter));
    return outputs;
  });
}

}  // namespace
}  // namespace tessera::kernels
