#ifndef TESSERA_TOOLS_TRAIN_COMMAND_H_
#define TESSERA_TOOLS_TRAIN_COMMAND_H_

#include <string>
#include <vector>

namespace tessera {

// tessera train CONFIG.yaml [--ranks N] [--set key.path=value]...
//     [--metrics FILE.jsonl] [--curve FILE.svg] [--trace FILE.json]
// Returns the exit status: 0 done, 1 failed, 2 the command line or the
// configuration was wrong, 130 stopped by a signal.
int TrainCommand(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_COMMAND_H_
