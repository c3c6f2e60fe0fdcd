#ifndef TESSERA_TOOLS_CHECK_RUN_H_
#define TESSERA_TOOLS_CHECK_RUN_H_

#include "absl/status/statusor.h"
#include "core/device.h"
#include "sharding/trainer.h"
#include "tools/run_config.h"

namespace tessera {

// The plans of a run, after all checks that need no data and no device: what fails
// here fails before anything is launched or allocated. InvalidArgument where a tier
// would have to hold more than it can: how much, mostly of what, and what would help.
absl::StatusOr<PlanSet> CheckRun(const RunConfig& config, int world, Backend backend,
                                 const TierBytes& capacity);

}  // namespace tessera

#endif  // TESSERA_TOOLS_CHECK_RUN_H_
