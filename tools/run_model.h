#ifndef TESSERA_TOOLS_RUN_MODEL_H_
#define TESSERA_TOOLS_RUN_MODEL_H_

#include "absl/status/statusor.h"
#include "models/module.h"
#include "sharding/trainer.h"
#include "tools/run_config.h"

namespace tessera {

// What a run's configuration asks of the library. InvalidArgument where the
// model's sizes make no sense.
absl::StatusOr<Model> MakeModel(const RunConfig& config);
TrainerOptions MakeTrainerOptions(const RunConfig& config, int world);

// The plans of a run, after all checks that need no data and no device: what fails
// here fails before anything is launched or allocated. `ranks_here` ranks share
// this machine's memory where the configuration names no capacity; with 0, the run
// is for another machine, of which nothing is known.
absl::StatusOr<PlanSet> CheckRun(const RunConfig& config, int world, int ranks_here);

// Bytes of a rank's device tier.
int64_t DeviceCapacity(const RunConfig& config, int ranks_here);

// Why the same-bits promise does not hold for the run, and what restores it; empty
// where it holds.
std::string WithdrawnPromise(const RunConfig& config, int world);

}  // namespace tessera

#endif  // TESSERA_TOOLS_RUN_MODEL_H_
