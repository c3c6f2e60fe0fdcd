#include "tools/schedule.h"

#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

void ExpectRates(const RunConfig::Schedule& schedule, const std::vector<double>& expected) {
  ASSERT_EQ(schedule.steps, static_cast<int64_t>(expected.size()));
  for (int64_t step = 0; step < schedule.steps; ++step) {
    EXPECT_NEAR(LearningRate(schedule, 10, step), expected[step], 1e-12) << "step " << step;
  }
}

TEST(LearningRate, Constant) {
  ExpectRates({.name = ScheduleName::kConstant, .steps = 4, .warmup_steps = 2}, {5, 10, 10, 10});
}

TEST(LearningRate, Linear) {
  ExpectRates({.name = ScheduleName::kLinear, .steps = 4, .final_fraction = 0.2}, {10, 8, 6, 4});
  ExpectRates({.name = ScheduleName::kLinear, .steps = 6, .warmup_steps = 1, .final_fraction = 0},
              {10, 10, 8, 6, 4, 2});
}

TEST(LearningRate, Cosine) {
  ExpectRates({.name = ScheduleName::kCosine, .steps = 6, .warmup_steps = 2, .final_fraction = 0},
              {5, 10, 10, 5 + 5 * 0.70710678118654752, 5, 5 - 5 * 0.70710678118654752});
  ExpectRates({.name = ScheduleName::kCosine, .steps = 2, .final_fraction = 0.1}, {10, 5.5});
}

TEST(LearningRate, WarmupStableDecay) {
  ExpectRates({.name = ScheduleName::kWarmupStableDecay,
               .steps = 8,
               .warmup_steps = 2,
               .decay_steps = 4,
               .final_fraction = 0},
              {5, 10, 10, 10, 10, 7.5, 5, 2.5});
}

TEST(LearningRate, WarmupAlone) {
  ExpectRates({.name = ScheduleName::kCosine, .steps = 3, .warmup_steps = 3},
              {10.0 / 3, 20.0 / 3, 10});
}

}  // namespace
}  // namespace tessera
