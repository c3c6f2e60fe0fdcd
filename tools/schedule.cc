#include "tools/schedule.h"

#include <cmath>
#include <numbers>

namespace tessera {
namespace {

double Shape(ScheduleName name, double progress) {
  switch (name) {
    case ScheduleName::kConstant:
      return 1;
    case ScheduleName::kCosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case ScheduleName::kLinear:
    case ScheduleName::kWarmupStableDecay:
      return 1 - progress;
  }
  return 1;
}

}  // namespace

double LearningRate(const RunConfig::Schedule& schedule, double peak, int64_t step) {
  if (step < schedule.warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const int64_t decay_steps = schedule.name == ScheduleName::kWarmupStableDecay
                                  ? schedule.decay_steps
                                  : schedule.steps - schedule.warmup_steps;
  const int64_t first = schedule.steps - decay_steps;
  if (step <= first) return peak;
  const double progress = static_cast<double>(step - first) / static_cast<double>(decay_steps);
  return peak *
         (schedule.final_fraction + (1 - schedule.final_fraction) * Shape(schedule.name, progress));
}

}  // namespace tessera
