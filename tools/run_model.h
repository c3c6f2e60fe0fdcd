#ifndef TESSERA_TOOLS_RUN_MODEL_H_
#define TESSERA_TOOLS_RUN_MODEL_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/device.h"
#include "models/gpt2.h"
#include "models/module.h"
#include "sharding/trainer.h"
#include "tools/run_config.h"

namespace tessera {

// What a run's configuration asks of the library. InvalidArgument where the
// model's sizes make no sense.
Gpt2Config Gpt2ConfigOf(const RunConfig& config);
absl::StatusOr<Model> MakeModel(const RunConfig& config);
TrainerOptions MakeTrainerOptions(const RunConfig& config, int world);

// Whether `auto` places something.
bool PlacesAutomatically(const RunConfig& config);

// What a run plans with: what is placed automatically has found its place.
// ResourceExhausted where there is none that fits.
absl::StatusOr<PlanOptions> PlacedOptions(const RunConfig& config, const Model& model, int world,
                                          Backend backend, const TierBytes& capacity);

// What a rank may use of each tier. `ranks_here` ranks share this machine's memory
// where the configuration names no capacity; with 0, the run is for another machine,
// of which nothing is known. `free_bytes` are those of a GPU, if it is known.
// InvalidArgument where the NVMe tier's free space counts and its folder does not tell it.
absl::StatusOr<TierBytes> CapacityOf(const RunConfig& config, Backend backend, int ranks_here,
                                     std::optional<int64_t> free_bytes = std::nullopt);

// Why the same-bits promise does not hold for the run, and what restores it; empty
// where it holds.
std::string WithdrawnPromise(const RunConfig& config, int world);

}  // namespace tessera

#endif  // TESSERA_TOOLS_RUN_MODEL_H_
