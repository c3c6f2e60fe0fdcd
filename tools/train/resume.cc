#include "tools/train/resume.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/gather_text.h"
#include "core/status.h"
#include "sharding/checkpoint/checkpoint_folder.h"
#include "sharding/checkpoint/checkpoint_reader.h"
#include "sharding/checkpoint/load.h"

namespace tessera {
namespace {

constexpr char kData[] = "data";

// Whether the name is the key's, its last part's or a section's of it.
bool Names(absl::string_view name, absl::string_view key) {
  return name == key || absl::EndsWith(key, absl::StrCat(".", name)) ||
         absl::StartsWith(key, absl::StrCat(name, "."));
}

absl::string_view KeyOf(absl::string_view setting) {
  return setting.substr(0, setting.find(" = "));
}

bool IsAllowed(absl::string_view key, const std::vector<std::string>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& name) { return Names(name, key); });
}

absl::Status Differs(const std::string& folder, absl::string_view theirs, absl::string_view ours,
                     absl::string_view advice) {
  return absl::InvalidArgumentError(absl::StrCat(folder, ": the checkpoint is of a run with ",
                                                 theirs, ", this one has ", ours, "; ", advice));
}

// A setting that the checkpoint does not tell of is free.
absl::Status CheckSettings(const CheckpointReader& checkpoint, const RunConfig& config,
                           const std::vector<std::string>& allowed) {
  std::map<std::string, std::string> theirs;
  for (const std::string& setting : checkpoint.manifest().settings) {
    theirs[std::string(KeyOf(setting))] = setting;
  }
  for (const std::string& our : ResultSettings(config)) {
    const std::string key(KeyOf(our));
    const auto their = theirs.find(key);
    if (their == theirs.end() || their->second == our || IsAllowed(key, allowed)) continue;
    return Differs(checkpoint.folder(), their->second, our,
                   absl::StartsWith(key, "model.")
                       ? "a checkpoint goes on with its own model only"
                       : absl::StrCat("set it so, or change it on purpose with --allow ", key));
  }
  return absl::OkStatus();
}

absl::Status CheckData(const CheckpointReader& checkpoint, const std::string& data,
                       const std::vector<std::string>& allowed) {
  const std::string& theirs = checkpoint.manifest().data;
  if (theirs.empty() || data == theirs || IsAllowed(kData, allowed)) return absl::OkStatus();
  return Differs(checkpoint.folder(), absl::StrCat("data of ", theirs), data,
                 "give data.train the same tokens, or change them on purpose with --allow data");
}

// From the best to the worst.
absl::StatusOr<std::vector<std::string>> Candidates(const RunConfig& config) {
  if (config.resume == kResumeNone) return std::vector<std::string>();
  if (config.resume != kResumeAuto) return std::vector<std::string>{config.resume};
  std::vector<std::string> paths;
  TESSERA_ASSIGN_OR_RETURN(const std::vector<CheckpointFolder::Entry> entries,
                           CheckpointFolder(config.checkpoint.folder).List());
  paths.reserve(entries.size());
  for (const CheckpointFolder::Entry& entry : entries) paths.push_back(entry.path);
  return paths;
}

absl::Status NoneIntact(const RunConfig& config, const std::vector<std::string>& why) {
  return absl::InvalidArgumentError(absl::StrCat(
      config.checkpoint.folder, ": none of its ", why.size(), " checkpoints is intact (",
      absl::StrJoin(why, "; "), "); name another one (resume), or another folder"));
}

// A run never writes among checkpoints that are newer than where it begins: they would be
// taken for its own.
absl::Status CheckFolder(const RunConfig& config, int64_t from) {
  if (config.checkpoint.folder.empty()) return absl::OkStatus();
  TESSERA_ASSIGN_OR_RETURN(const std::vector<CheckpointFolder::Entry> entries,
                           CheckpointFolder(config.checkpoint.folder).List());
  if (entries.empty() || entries[0].step <= from) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      config.checkpoint.folder, ": has checkpoints up to step ", entries[0].step,
      from < 0 ? ", and this run would begin anew" : absl::StrCat(", newer than step ", from),
      "; go on from them (resume: auto), or give another checkpoint.folder"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseAllowed(const std::vector<std::string>& lists) {
  std::vector<std::string> allowed;
  const std::vector<std::string> settings = ResultSettings(RunConfig());
  for (const std::string& list : lists) {
    for (const absl::string_view name : absl::StrSplit(list, ',', absl::SkipEmpty())) {
      const bool known =
          name == kData || std::any_of(settings.begin(), settings.end(), [&](const auto& setting) {
            return Names(name, KeyOf(setting));
          });
      const bool of_model = std::any_of(settings.begin(), settings.end(), [&](const auto& setting) {
        return Names(name, KeyOf(setting)) && absl::StartsWith(setting, "model.");
      });
      if (of_model) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--allow ", name, ": a checkpoint goes on with its own model only; leave it out"));
      }
      if (!known) {
        return absl::InvalidArgumentError(absl::StrCat(
            "--allow ", name, " is no setting that a checkpoint fixes; expected data, or a key ",
            "such as optimizer.learning_rate (what else may always change)"));
      }
      allowed.emplace_back(name);
    }
  }
  return allowed;
}

absl::Status CheckResume(const RunConfig& config, const std::vector<std::string>& allowed) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> candidates, Candidates(config));
  std::vector<std::string> why;
  for (const std::string& path : candidates) {
    const absl::StatusOr<CheckpointReader> checkpoint = CheckpointReader::Open(path);
    if (checkpoint.ok()) {
      TESSERA_RETURN_IF_ERROR(CheckSettings(*checkpoint, config, allowed));
      return config.resume == kResumeAuto ? absl::OkStatus()
                                          : CheckFolder(config, checkpoint->manifest().step);
    }
    if (config.resume != kResumeAuto) return checkpoint.status();
    why.emplace_back(checkpoint.status().message());
  }
  return why.empty() ? CheckFolder(config, /*from=*/-1) : NoneIntact(config, why);
}

absl::StatusOr<Resumed> ResumeRun(const RunConfig& config, const std::vector<std::string>& allowed,
                                  const std::string& data, Trainer& trainer,
                                  Communicator& communicator) {
  // The first rank's list is everybody's.
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> candidates, Candidates(config));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> lists,
                           GatherText(absl::StrJoin(candidates, "\n"), communicator));
  Resumed resumed;
  for (const absl::string_view path : absl::StrSplit(lists[0], '\n', absl::SkipEmpty())) {
    const absl::StatusOr<CheckpointReader> checkpoint = CheckpointReader::Open(std::string(path));
    absl::Status own = checkpoint.status();
    if (own.ok()) own = CheckSettings(*checkpoint, config, allowed);
    if (own.ok()) own = CheckData(*checkpoint, data, allowed);
    if (own.ok()) own = Load(*checkpoint, trainer);
    TESSERA_ASSIGN_OR_RETURN(
        const std::vector<std::string> failures,
        GatherText(own.ok()
                       ? ""
                       : absl::StrCat(absl::IsDataLoss(own) || absl::IsNotFound(own) ? "D" : "X",
                                      own.message()),
                   communicator));
    const auto first = std::find_if(failures.begin(), failures.end(),
                                    [](const std::string& failure) { return !failure.empty(); });
    if (first == failures.end()) {
      resumed.path = std::string(path);
      resumed.step = trainer.steps_done();
      return resumed;
    }
    const bool damaged = (*first)[0] == 'D';
    if (!damaged || config.resume != kResumeAuto) {
      return first - failures.begin() == communicator.rank()
                 ? own
                 : absl::CancelledError(absl::StrCat("rank ", first - failures.begin()));
    }
    resumed.passed_over.push_back(first->substr(1));
  }
  if (!resumed.passed_over.empty()) {
    return communicator.rank() == 0 ? NoneIntact(config, resumed.passed_over)
                                    : absl::CancelledError("rank 0");
  }
  return resumed;
}

}  // namespace tessera
