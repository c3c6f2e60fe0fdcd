#include "tools/launch/mpirun_job.h"

#include <signal.h>
#include <sys/wait.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/status.h"
#include "tools/exit_status.h"
#include "tools/launch/attend.h"
#include "tools/launch/describe_kill.h"
#include "tools/launch/mpirun_errors.h"
#include "tools/launch/one_host.h"

namespace tessera {
namespace {

class MpirunJob final : public Job {
 public:
  MpirunJob(int ranks, const std::vector<std::string>& command, OneHost host)
      : ranks_(ranks), command_(command), host_(std::move(host)), errors_(WriteError) {}

  absl::Status Start(const ChildSetting& setting) override {
    // mpirun ends its ranks when it is asked to end, but not when it is killed.
    Child child;
    child.words = {"mpirun", "-np", absl::StrCat(ranks_), "setpriv", "--pdeathsig", "KILL"};
    child.words.insert(child.words.end(), command_.begin(), command_.end());
    child.variables = host_.variables();
    child.death_signal = SIGTERM;
    TESSERA_ASSIGN_OR_RETURN(process_, StartChild(child, setting));
    return absl::OkStatus();
  }
  void Ask() override { kill(process_, SIGUSR1); }
  void End() override { kill(process_, std::exchange(told_to_end_, true) ? SIGKILL : SIGTERM); }
  State Look() override {
    return waitpid(process_, &status_, WNOHANG) == process_ ? State::kEnded : State::kRuns;
  }
  void AddErrors(absl::string_view bytes) override { errors_.lines().Add(bytes); }
  void FinishErrors() override { errors_.lines().Finish(); }

  int ExitStatus(Stop stop);

 private:
  const int ranks_;
  const std::vector<std::string> command_;
  const OneHost host_;
  MpirunErrors errors_;
  pid_t process_ = -1;
  bool told_to_end_ = false;
  int status_ = 0;  // as waitpid tells it
};

int MpirunJob::ExitStatus(Stop stop) {
  const int code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  const auto killed = errors_.killed_rank();
  if (stop == Stop::kForced) return kInterrupted;
  // A process that does not catch it yet ends at once.
  const int signal = killed ? killed->signal : WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;
  if (stop == Stop::kAsked && signal == SIGUSR1) return kInterrupted;
  if (!killed && (code == kDone || code == kMisused || code == kInterrupted)) return code;
  const std::string cause =
      killed ? DescribeKill(killed->rank, killed->signal)
             : absl::StrCat("mpirun ended with status ", code, "\n", errors_.comments());
  errors_.lines().Report(
      absl::StrCat("tessera: error: ", absl::StripTrailingAsciiWhitespace(cause)));
  return kFailed;
}

}  // namespace

absl::StatusOr<int> LaunchUnderMpirun(int ranks, const std::vector<std::string>& command) {
  TESSERA_ASSIGN_OR_RETURN(OneHost host, OneHost::Create());
  MpirunJob job(ranks, command, std::move(host));
  TESSERA_ASSIGN_OR_RETURN(const Stop stop, Attend(job));
  return job.ExitStatus(stop);
}

}  // namespace tessera
