// Stands for the command in the launcher's test.
//   fake_command launch RANKS ARGUMENT...   starts itself again as ranks, with ARGUMENT...
//   fake_command rank FOLDER MILLISECONDS FAULT
// As a rank it writes its process id to FOLDER/RANK and takes steps of a given
// length, until asked to stop; rank 1 meets FAULT after the second.

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/world.h"
#include "tools/launch/launcher.h"
#include "tools/launch/stop_signal.h"

namespace tessera {
namespace {

int Report(const absl::Status& status) {
  std::fprintf(stderr, "tessera: error: %s\n", std::string(status.message()).c_str());
  return 1;
}

int Fail(Communicator& communicator) {
  const absl::Status status = absl::DataLossError("cannot read the data");
  Report(absl::DataLossError(absl::StrCat("rank ", communicator.rank(), ": ", status.message())));
  communicator.Abort(status);
  return 1;
}

int RunRank(const std::string& folder, int milliseconds, const std::string& fault) {
  CatchStopSignals();
  if (fault == "configuration") {
    Report(absl::InvalidArgumentError("a.yaml:3:1: unknown key"));
    return 2;
  }
  auto world = JoinWorld();
  if (!world.ok()) return Report(world.status());
  Communicator& communicator = **world;
  std::ofstream(absl::StrCat(folder, "/", communicator.rank())) << getpid() << std::endl;
  for (int step = 0; step < 1000; ++step) {
    if (communicator.rank() == 0) {
      std::printf("step %d\r", step);
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    if (step == 1 && fault == "abort" && communicator.rank() == 1) return Fail(communicator);
    if (step == 1 && fault == "silent" && communicator.rank() == 1) _exit(7);
    if (step == 1 && fault == "none") return 0;
    int64_t stop = StopRequested() ? 1 : 0;
    const absl::Status status = communicator.AllReduceSum(absl::MakeSpan(&stop, 1));
    if (!status.ok()) return Report(status);
    if (stop > 0) {
      if (communicator.rank() == 0) std::fprintf(stderr, "tessera: stopped after step %d\n", step);
      return 130;
    }
  }
  return 0;
}

int Run(const std::vector<std::string>& words) {
  if (words.size() == 5 && words[1] == "rank") {
    return RunRank(words[2], std::atoi(words[3].c_str()), words[4]);
  }
  std::vector<std::string> command = {words[0]};
  command.insert(command.end(), words.begin() + 3, words.end());
  const absl::StatusOr<int> status = Launch(std::atoi(words[2].c_str()), command);
  return status.ok() ? *status : Report(status.status());
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Run({argv, argv + argc}); }
