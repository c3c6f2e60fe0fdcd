#ifndef TESSERA_TOOLS_LAUNCH_LAUNCHER_H_
#define TESSERA_TOOLS_LAUNCH_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera {

// Runs `command` (a program's path and its arguments) as `ranks` ranks on this host,
// under mpirun if there is one and this program was built with MPI, and otherwise as
// processes that share memory; JoinWorld finds the world either way. Returns the
// exit status that this process should end with: 0 when every rank ended with 0; 2
// or 130 when a rank did; 1 otherwise. All that had to be said was then said on
// standard error, with one line that starts with "tessera: error" where the status
// is 1.
//
// SIGINT and SIGTERM do not reach the ranks: they get SIGUSR1, and have all the time
// that they need to stop (see stop_signal.h). A second signal ends them at once. If
// this process or mpirun is killed, the ranks are too. No other thread may run.
absl::StatusOr<int> Launch(int ranks, const std::vector<std::string>& command);

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_LAUNCHER_H_
