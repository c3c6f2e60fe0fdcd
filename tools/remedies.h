#ifndef TESSERA_TOOLS_REMEDIES_H_
#define TESSERA_TOOLS_REMEDIES_H_

#include <string>

#include "core/device.h"
#include "models/module.h"
#include "offload/tier.h"
#include "tools/run_config.h"

namespace tessera {

// What to change in a run that does not fit its tiers: up to three changes that make it
// fit, the cheapest first, each found by planning the run with it; else what the tiers
// would have to hold. Cheap is what adds few seconds to a step by a rough model: moves
// at nominal rates (sharding/fit.h), recomputation as a third of the arithmetic, a
// smaller micro-batch as a twentieth for each halving. Plans at most some thirty runs.
std::string Remedies(const RunConfig& config, const Model& model, int world, Backend backend,
                     const TierBytes& capacity);

}  // namespace tessera

#endif  // TESSERA_TOOLS_REMEDIES_H_
