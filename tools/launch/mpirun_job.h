#ifndef TESSERA_TOOLS_LAUNCH_MPIRUN_JOB_H_
#define TESSERA_TOOLS_LAUNCH_MPIRUN_JOB_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera {

// Launch, under mpirun.
absl::StatusOr<int> LaunchUnderMpirun(int ranks, const std::vector<std::string>& command);

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_MPIRUN_JOB_H_
