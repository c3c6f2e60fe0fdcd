#ifndef TESSERA_TOOLS_CHECKPOINT_COMMAND_H_
#define TESSERA_TOOLS_CHECKPOINT_COMMAND_H_

#include <string>
#include <vector>

namespace tessera {

// tessera checkpoint list FOLDER         a run's checkpoints, the newest first
// tessera checkpoint verify CHECKPOINT   reads all of it and checks every byte
// tessera checkpoint diff A B            what differs; 0 if nothing does, else 1
// tessera checkpoint convert FROM TO [--precision fp32|bf16]   see convert_checkpoint.h
// Returns the exit status.
int CheckpointCommand(const std::vector<std::string>& arguments);

}  // namespace tessera

#endif  // TESSERA_TOOLS_CHECKPOINT_COMMAND_H_
