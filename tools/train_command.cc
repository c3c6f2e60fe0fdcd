#include "tools/train_command.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/status.h"
#include "core/world.h"
#include "tools/check_run.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"
#include "tools/launch/launcher.h"
#include "tools/launch/stop_signal.h"
#include "tools/run_model.h"
#include "tools/train/local_ranks.h"
#include "tools/train/resume.h"
#include "tools/train/run_device.h"
#include "tools/train/training_run.h"

namespace tessera {
namespace {

// The first process of `tessera train --ranks N`: checks all that can be checked
// without data, and starts the ranks.
int StartRanks(const std::string& program, const CommandLine& line, int ranks) {
  const absl::StatusOr<RunConfig> config =
      LoadRunConfig(line.positional[0], line.All("set"), ranks);
  if (!config.ok()) return ReportMisuse(config.status());
  const absl::StatusOr<DeviceChoice> choice = ParseDeviceChoice(line.Get("device", "auto"));
  if (!choice.ok()) return ReportMisuse(choice.status());
  // CUDA is not looked for here, since it starts threads, which Launch cannot have: what
  // does not fit a GPU whose size the configuration leaves open, the ranks will say.
  const Backend backend = MostOf(*choice);
  if (*choice == DeviceChoice::kCuda && backend == Backend::kCpu) {
    return ReportFailure(BuiltWithoutCuda(), /*rank=*/-1);
  }
  const absl::StatusOr<TierBytes> capacity = CapacityOf(*config, backend, ranks);
  if (!capacity.ok()) return ReportMisuse(capacity.status());
  const absl::StatusOr<PlanSet> plans = CheckRun(*config, ranks, backend, *capacity);
  if (!plans.ok()) return ReportMisuse(plans.status());
  const absl::StatusOr<std::vector<std::string>> allowed = ParseAllowed(line.All("allow"));
  if (!allowed.ok()) return ReportMisuse(allowed.status());
  const absl::Status resumable = CheckResume(*config, *allowed);
  if (!resumable.ok()) return ReportMisuse(resumable);

  std::vector<std::string> command = {program, "train", line.positional[0]};
  for (const auto& [name, values] : line.options) {
    if (name == "ranks") continue;
    for (const std::string& value : values) {
      command.push_back("--" + name);
      command.push_back(value);
    }
  }
  // The ranks do not write to this process' standard output themselves.
  setenv("TESSERA_TERMINAL", isatty(STDOUT_FILENO) != 0 ? "1" : "0", 1);
  const absl::StatusOr<int> status = Launch(ranks, command);
  if (!status.ok()) return ReportFailure(status.status(), /*rank=*/-1);
  return *status;
}

// Of the first rank that is not fine, why; Aborted on the others.
absl::Status Agree(const absl::Status& own, Communicator& communicator) {
  std::vector<char> failed(communicator.size());
  const char flag = own.ok() ? 0 : 1;
  TESSERA_RETURN_IF_ERROR(communicator.AllGather(reinterpret_cast<const std::byte*>(&flag),
                                                 reinterpret_cast<std::byte*>(failed.data()), 1));
  const auto first = std::find(failed.begin(), failed.end(), 1) - failed.begin();
  if (first == communicator.size()) return absl::OkStatus();
  if (first == communicator.rank()) return own;
  return absl::AbortedError(absl::StrCat("rank ", first, " tells"));
}

// The plans of ranks that differ in, say, the learning rate are the same: nothing
// else would tell.
absl::Status CompareSettings(const RunConfig& config, Communicator& communicator) {
  const std::vector<std::string> own = SharedSettings(config);
  std::string text = absl::StrJoin(own, "\n");
  auto size = static_cast<int64_t>(text.size());
  TESSERA_RETURN_IF_ERROR(
      communicator.Broadcast(reinterpret_cast<std::byte*>(&size), sizeof(size), 0));
  text.resize(size);
  TESSERA_RETURN_IF_ERROR(
      communicator.Broadcast(reinterpret_cast<std::byte*>(text.data()), size, 0));
  const std::vector<std::string> first = absl::StrSplit(text, '\n');
  const auto [mine, theirs] = std::mismatch(own.begin(), own.end(), first.begin(), first.end());
  if (mine == own.end() || theirs == first.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rank ", communicator.rank(), " has ", *mine,
                                                 ", rank 0 has ", *theirs,
                                                 "; start all ranks with the same configuration"));
}

// The exit status of a rank whose world does not agree to go on; 0 where it does.
int EndOf(const absl::Status& agreed, const Communicator& communicator) {
  if (agreed.ok()) return 0;
  if (absl::IsAborted(agreed)) return kMisused;
  // A rank that was quicker may have failed at what comes next.
  if (absl::IsCancelled(agreed) || absl::IsUnavailable(agreed)) {
    return ReportFailure(agreed, communicator.rank());
  }
  return ReportMisuse(agreed);
}

int RunAsRank(const CommandLine& line) {
  CatchStopSignals();
  absl::StatusOr<std::unique_ptr<Communicator>> joined = JoinWorld();
  if (!joined.ok()) return ReportFailure(joined.status(), /*rank=*/-1);
  const std::unique_ptr<Communicator> communicator = *std::move(joined);
  const absl::StatusOr<RunConfig> config =
      LoadRunConfig(line.positional[0], line.All("set"), communicator->size());
  absl::Status fine = config.status();
  const absl::StatusOr<DeviceChoice> choice = ParseDeviceChoice(line.Get("device", "auto"));
  if (fine.ok()) fine = choice.status();
  const absl::StatusOr<std::vector<std::string>> allowed = ParseAllowed(line.All("allow"));
  if (fine.ok()) fine = allowed.status();
  fine = Agree(fine, *communicator);
  if (fine.ok()) fine = Agree(CompareSettings(*config, *communicator), *communicator);
  if (fine.ok()) fine = Agree(CheckResume(*config, *allowed), *communicator);
  if (const int end = EndOf(fine, *communicator); end != 0) return end;

  std::string why;
  const absl::StatusOr<Backend> backend = ChooseBackend(*choice, *communicator, &why);
  fine = Agree(backend.status(), *communicator);
  if (absl::IsAborted(fine)) return kFailed;
  if (!fine.ok()) return ReportFailure(fine, communicator->rank());
  if (!why.empty() && communicator->rank() == 0) {
    std::fprintf(stderr, "tessera: note: training on the CPU, since %s\n", why.c_str());
  }
  const absl::StatusOr<TierBytes> here = CapacityOf(*config, *backend, RanksHere());
  fine = Agree(here.status(), *communicator);
  if (const int end = EndOf(fine, *communicator); end != 0) return end;
  const absl::StatusOr<TierBytes> capacity = LeastOf(*here, *communicator);
  if (!capacity.ok()) return ReportFailure(capacity.status(), communicator->rank());
  fine =
      Agree(CheckRun(*config, communicator->size(), *backend, *capacity).status(), *communicator);
  if (const int end = EndOf(fine, *communicator); end != 0) return end;

  const absl::StatusOr<RunEnd> end =
      TrainRun(*config, *allowed, *backend,
               {line.Get("metrics", ""), line.Get("curve", ""), line.Get("trace", "")},
               *communicator, [&communicator](const absl::Status& failure) {
                 ReportFailure(failure, communicator->rank());
               });
  if (!end.ok()) return kFailed;
  return *end == RunEnd::kStopped ? kInterrupted : kDone;
}

}  // namespace

int TrainCommand(const std::string& program, const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> line =
      ParseCommandLine(arguments, {{"ranks", "set", "device", "metrics", "curve", "trace", "allow"},
                                   {},
                                   1,
                                   1,
                                   "a configuration"});
  if (!line.ok()) return ReportMisuse(line.status());
  const absl::StatusOr<int> ranks = line->Integer("ranks", 0, 1, kMostRanks);
  if (!ranks.ok()) return ReportMisuse(ranks.status());
  if (*ranks > 0 && StartedAsRank()) {
    return ReportMisuse(absl::InvalidArgumentError(
        "--ranks starts ranks of its own, but mpirun or srun has started this one; leave it out"));
  }
  // A run is worth more than what it tells: it goes on if nobody reads that any more.
  signal(SIGPIPE, SIG_IGN);
  return *ranks > 0 ? StartRanks(program, *line, *ranks) : RunAsRank(*line);
}

}  // namespace tessera
