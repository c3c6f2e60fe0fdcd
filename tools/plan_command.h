#ifndef TESSERA_TOOLS_PLAN_COMMAND_H_
#define TESSERA_TOOLS_PLAN_COMMAND_H_

#include <string>
#include <vector>

namespace tessera {

// tessera plan CONFIG.yaml [--ranks N] [--set key.path=value]... [--json] [--print]
// Plans a run without running it: memory by category and traffic, per rank; with
// --print also every buffer and instruction. Returns the exit status: 0, or 2 if
// the command line or the configuration was wrong.
int PlanCommand(const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_COMMAND_H_
