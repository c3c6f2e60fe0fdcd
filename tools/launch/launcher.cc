#include "tools/launch/launcher.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/mpi_communicator.h"
#include "tools/launch/mpirun_job.h"
#include "tools/launch/process_job.h"

namespace tessera {
namespace {

bool HasMpirun() {
  const char* const path = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (access(absl::StrCat(folder, "/mpirun").c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<int> Launch(int ranks, const std::vector<std::string>& command) {
  return BuiltWithMpi() && HasMpirun() ? LaunchUnderMpirun(ranks, command)
                                       : LaunchProcesses(ranks, command);
}

}  // namespace tessera
