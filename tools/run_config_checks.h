#ifndef TESSERA_TOOLS_RUN_CONFIG_CHECKS_H_
#define TESSERA_TOOLS_RUN_CONFIG_CHECKS_H_

#include <cstdint>

#include "core/config/config_reader.h"
#include "tools/run_config.h"

namespace tessera {

// The most sequences of a batch, and ranks of a world: products of three such
// numbers stay below 2^63.
inline constexpr int64_t kMostSequences = int64_t{1} << 20;

// Checks what relates several settings that are each in range, for a world of
// `world` ranks, and infers the batch size that was not given. Problems go to
// `reader`.
void CheckRunConfig(RunConfig& config, int64_t world, ConfigReader& reader);

}  // namespace tessera

#endif  // TESSERA_TOOLS_RUN_CONFIG_CHECKS_H_
