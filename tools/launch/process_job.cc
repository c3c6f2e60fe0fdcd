#include "tools/launch/process_job.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/process_communicator.h"
#include "core/status.h"
#include "tools/exit_status.h"
#include "tools/launch/attend.h"
#include "tools/launch/describe_kill.h"
#include "tools/launch/rank_errors.h"

namespace tessera {
namespace {

class ProcessJob final : public Job {
 public:
  ProcessJob(int ranks, const std::vector<std::string>& command, int world)
      : ranks_(ranks), command_(command), world_(world), errors_(WriteError) {}
  ~ProcessJob() override { close(world_); }

  absl::Status Start(const ChildSetting& setting) override;
  void Ask() override { Send(SIGUSR1); }
  void End() override {
    told_to_end_ = true;
    Send(SIGKILL);
  }
  State Look() override;
  void AddErrors(absl::string_view bytes) override { errors_.Add(bytes); }
  void FinishErrors() override { errors_.Finish(); }

  int ExitStatus(Stop stop);

 private:
  // A rank that ended otherwise than well, on its own.
  struct Failure {
    int rank;
    int status;  // as waitpid tells it
  };

  // Why a rank ended, if it has not said so itself.
  std::string Cause(const Failure& failure) const;
  void Send(int signal) {
    for (const pid_t process : processes_) {
      if (process > 0) kill(process, signal);
    }
  }

  const int ranks_;
  const std::vector<std::string> command_;
  const int world_;
  RankErrors errors_;
  std::vector<pid_t> processes_;  // by rank; 0 once it has ended
  bool told_to_end_ = false;
  std::optional<Failure> first_failure_;
};

absl::Status ProcessJob::Start(const ChildSetting& setting) {
  for (int rank = 0; rank < ranks_; ++rank) {
    const absl::StatusOr<pid_t> process =
        StartChild({.words = command_,
                    .variables = ProcessRankVariables({world_, rank, ranks_}),
                    .death_signal = SIGKILL,
                    .kept_descriptor = world_},
                   setting);
    if (!process.ok()) {
      End();
      for (const pid_t started : processes_) waitpid(started, nullptr, 0);
      return process.status();
    }
    processes_.push_back(*process);
  }
  return absl::OkStatus();
}

Job::State ProcessJob::Look() {
  for (int rank = 0; rank < ranks_; ++rank) {
    int status = 0;
    if (processes_[rank] == 0 || waitpid(processes_[rank], &status, WNOHANG) == 0) continue;
    processes_[rank] = 0;
    if (status == 0 || told_to_end_ || first_failure_) continue;
    first_failure_ = {rank, status};
    // Before the others say that it has ended.
    if (const std::string cause = Cause(*first_failure_); !cause.empty()) {
      errors_.Report(absl::StrCat("tessera: error: ", cause));
    }
  }
  const bool runs =
      std::any_of(processes_.begin(), processes_.end(), [](pid_t process) { return process > 0; });
  return !runs ? State::kEnded : first_failure_ ? State::kBreaks : State::kRuns;
}

std::string ProcessJob::Cause(const Failure& failure) const {
  if (WIFSIGNALED(failure.status)) {
    const int signal = WTERMSIG(failure.status);
    // Asked to stop before it caught that.
    return signal == SIGUSR1 ? "" : DescribeKill(failure.rank, signal);
  }
  const int code = WEXITSTATUS(failure.status);
  if (code == kNotStarted) return absl::StrCat("cannot run ", command_[0]);
  if (code == kFailed || code == kMisused || code == kInterrupted) return "";
  return absl::StrCat("rank ", failure.rank, " ended with status ", code);
}

int ProcessJob::ExitStatus(Stop stop) {
  if (stop == Stop::kForced) return kInterrupted;
  if (!first_failure_) return kDone;
  const auto [rank, status] = *first_failure_;
  // A process that does not catch it yet ends at once.
  if (stop == Stop::kAsked && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1) {
    return kInterrupted;
  }
  const int code = WEXITSTATUS(status);
  if (WIFEXITED(status) && (code == kMisused || code == kInterrupted)) return code;
  errors_.Report(absl::StrCat("tessera: error: ",
                              WIFSIGNALED(status)
                                  ? DescribeKill(rank, WTERMSIG(status))
                                  : absl::StrCat("rank ", rank, " ended with status ", code)));
  return kFailed;
}

}  // namespace

absl::StatusOr<int> LaunchProcesses(int ranks, const std::vector<std::string>& command) {
  TESSERA_ASSIGN_OR_RETURN(const int world, MakeProcessWorld(ranks));
  ProcessJob job(ranks, command, world);
  TESSERA_ASSIGN_OR_RETURN(const Stop stop, Attend(job));
  return job.ExitStatus(stop);
}

}  // namespace tessera
