#ifndef TESSERA_TOOLS_LAUNCH_PROCESS_JOB_H_
#define TESSERA_TOOLS_LAUNCH_PROCESS_JOB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera {

// Launch, with ranks that are children of this process (process_communicator.h).
absl::StatusOr<int> LaunchProcesses(int ranks, const std::vector<std::string>& command);

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_PROCESS_JOB_H_
