#include "kernels/adamw.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/adamw_block.h"
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

Tensor Part(const Tensor& whole, int64_t first, int64_t count) {
  auto* const data = static_cast<std::byte*>(whole.data) + first * SizeOf(whole.dtype);
  return {data, whole.dtype, {count}};
}

// The distance of a float from the truth, in units in the last place of `scale`.
double Ulps(double value, double truth, double scale) {
  const double smallest = std::numeric_limits<float>::denorm_min();
  const double ulp = std::ldexp(1.0, std::ilogb(std::max(std::abs(scale), 0x1p-126)) - 23);
  return std::abs(value - truth) / std::max(ulp, smallest);
}

// Every element, from moments and gradients of any size, at any step, of any number of
// elements from any start. The truth is found in doubles from the same floats, with the
// optimizer's constants unrounded.
TEST(AdamW, IsWithinAFewUnitsInTheLastPlace) {
  InlineLane lane(2);
  const double scales[] = {1e-18, 1e-9, 1e-4, 1, 1e4};
  double worst_m = 0;
  double worst_v = 0;
  double worst_p = 0;
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t elements : {1, 15, 1023, 1025, 20011}) {
      for (int64_t start : {0, 1, 3}) {
        for (int step : {1, 2, 1000, 1'000'000}) {
          const int64_t all = elements + start;
          std::vector<double> g, p, m, v;
          const Array noise = RandomArray(DType::kFloat32, {4 * all}, step + start);
          const std::vector<double> lot = noise.values();
          for (int64_t i = 0; i < all; ++i) {
            g.push_back(lot[4 * i] * scales[i % 5]);
            p.push_back(lot[4 * i + 1] * scales[i / 5 % 5]);
            m.push_back(step == 1 ? 0 : lot[4 * i + 2] * scales[i % 5]);
            v.push_back(
                step == 1 ? 0 : lot[4 * i + 3] * lot[4 * i + 3] * scales[i % 5] * scales[i % 5]);
          }
          const Array gradient(dtype, {all}, g);
          const Array master(DType::kFloat32, {all}, p);
          const Array first(DType::kFloat32, {all}, m);
          const Array second(DType::kFloat32, {all}, v);
          const Array copy(DType::kBFloat16, {all});
          g = gradient.values();
          p = master.values();
          m = first.values();
          v = second.values();
          const Tensor copy_part = Part(copy.tensor(), start, elements);
          ASSERT_TRUE(AdamW(lane, Scalars(step), Part(gradient.tensor(), start, elements), nullptr,
                            Part(master.tensor(), start, elements),
                            Part(first.tensor(), start, elements),
                            Part(second.tensor(), start, elements), &copy_part)
                          .ok());
          const std::vector<double> got_m = first.values();
          const std::vector<double> got_v = second.values();
          const std::vector<double> got_p = master.values();
          for (int64_t i = start; i < all; ++i) {
            const double new_m = kBeta1 * m[i] + (1 - kBeta1) * g[i];
            const double new_v = kBeta2 * v[i] + (1 - kBeta2) * g[i] * g[i];
            const double denominator = std::sqrt(new_v / (1 - std::pow(kBeta2, step))) + kEpsilon;
            const double rate = kLearningRate / (1 - std::pow(kBeta1, step)) / denominator;
            const double decayed = p[i] * (1 - kLearningRate * kDecay);
            const double m_scale = std::max(std::abs(kBeta1 * m[i]), std::abs((1 - kBeta1) * g[i]));
            const double p_scale = std::max(std::abs(decayed), rate * m_scale);
            worst_m = std::max(worst_m, Ulps(got_m[i], new_m, m_scale));
            worst_v = std::max(worst_v, Ulps(got_v[i], new_v, new_v));
            worst_p = std::max(worst_p, Ulps(got_p[i], decayed - rate * new_m, p_scale));
          }
        }
      }
    }
  }
  // Each of the constants, products and sums on the way is rounded once, by half a unit.
  // What may cancel is measured by the larger of what is added.
  EXPECT_LE(worst_m, 2);
  EXPECT_LE(worst_v, 3);
  EXPECT_LE(worst_p, 6);
  EXPECT_GT(worst_p, 0);
}

TEST(AdamW, AllInstructionSetsGiveTheSameBits) {
  if (cpu::ChooseAdamWBlock() != cpu::kAdamWBlockAvx512) GTEST_SKIP() << "no AVX-512 here";
  for (int64_t elements : {1, 7, 8, 15, 16, 17, 1000, 1024}) {
    const Array gradient = RandomArray(DType::kFloat32, {elements}, 1);
    const Array moments = RandomArray(DType::kFloat32, {elements}, 2);
    std::vector<double> squares = moments.values();
    for (double& square : squares) square *= square;
    const auto run = [&](cpu::AdamWBlock update) {
      std::vector<Array> state;
      state.push_back(RandomArray(DType::kFloat32, {elements}, 3));
      state.push_back(RandomArray(DType::kFloat32, {elements}, 2));
      state.emplace_back(DType::kFloat32, Shape{elements}, squares);
      for (int step = 1; step <= 3; ++step) {
        update(Scalars(step), gradient.tensor().as<float>(), 0.7f, elements,
               state[0].tensor().as<float>(), state[1].tensor().as<float>(),
               state[2].tensor().as<float>());
      }
      return state;
    };
    const std::vector<Array> here = run(cpu::kAdamWBlock);
    const std::vector<Array> wide = run(cpu::kAdamWBlockAvx512);
    for (size_t s = 0; s < here.size(); ++s) EXPECT_TRUE(here[s].SameBits(wide[s])) << elements;
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
