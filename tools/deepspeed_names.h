#ifndef TESSERA_TOOLS_DEEPSPEED_NAMES_H_
#define TESSERA_TOOLS_DEEPSPEED_NAMES_H_

#include "core/config/schema.h"

namespace tessera {

// Answers the names of a DeepSpeed configuration with Tessera's own.
void AddDeepSpeedNames(Schema& schema);

}  // namespace tessera

#endif  // TESSERA_TOOLS_DEEPSPEED_NAMES_H_
