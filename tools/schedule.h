#ifndef TESSERA_TOOLS_SCHEDULE_H_
#define TESSERA_TOOLS_SCHEDULE_H_

#include <cstdint>

#include "tools/run_config.h"

namespace tessera {

// The learning rate of a step, 0 <= step < schedule.steps. With w warmup steps:
//   step < w     peak * (step + 1) / w
//   afterwards   peak * (f + (1 - f) * shape(progress)), f the final fraction
// where progress runs from 0 at the first step of the decay towards 1 at the end
// of the run (the decay of wsd is its last decay_steps, that of the others all
// after the warmup), and shape falls from 1 to 0: as half a cosine, or linearly.
double LearningRate(const RunConfig::Schedule& schedule, double peak, int64_t step);

}  // namespace tessera

#endif  // TESSERA_TOOLS_SCHEDULE_H_
