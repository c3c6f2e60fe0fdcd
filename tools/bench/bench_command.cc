#include "tools/bench/bench_command.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "core/atomic_file.h"
#include "core/status.h"
#include "core/world.h"
#include "tools/bench/bench_parts.h"
#include "tools/bench/capacity.h"
#include "tools/bench/gpu_bench.h"
#include "tools/bench/offload_bench.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"
#include "tools/launch/launcher.h"

namespace tessera {
namespace {

constexpr std::array<absl::string_view, 7> kParts = {"step",     "adamw",   "ranks", "plan",
                                                     "capacity", "offload", "gpu"};

// The part that needs two ranks: this process starts them, and they come back here.
absl::Status BenchTwoRanks(const std::string& program) {
  TESSERA_ASSIGN_OR_RETURN(const int status, Launch(2, {program, "bench", "ranks"}));
  return status == kDone ? absl::OkStatus() : absl::CancelledError("a rank failed");
}

absl::Status RunAsRank() {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> communicator, JoinWorld());
  return BenchRanks(*communicator);
}

// Writes what was measured to `json`, if that is not empty, whatever the end.
absl::Status BenchGpuAndWrite(const std::string& json) {
  if (!json.empty()) TESSERA_RETURN_IF_ERROR(AtomicFile::CheckPath(json));
  GpuReport report;
  absl::Status status = BenchGpu(FullGpuBenchSizes(), report);
  if (!json.empty() && !report.figures().empty()) {
    TESSERA_RETURN_IF_ERROR(WriteFileAtomically(json, report.ToJson().dump(2) + "\n"));
  }
  if (status.ok()) report.PrintSummary();
  return status;
}

}  // namespace

int BenchCommand(const std::string& program, const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(
      arguments, {{"json", "path"}, {}, 0, static_cast<int>(kParts.size()), "a part"});
  if (!line.ok()) return ReportMisuse(line.status());
  for (const std::string& part : line->positional) {
    if (std::find(kParts.begin(), kParts.end(), part) != kParts.end()) continue;
    return ReportMisuse(absl::InvalidArgumentError(
        absl::StrCat("bench has no part \"", part,
                     "\"; it has step, adamw, ranks, plan, capacity, offload and gpu")));
  }
  const auto names = [&](absl::string_view part) {
    return std::find(line->positional.begin(), line->positional.end(), part) !=
           line->positional.end();
  };
  if (line->Has("json") && !names("gpu")) {
    return ReportMisuse(absl::InvalidArgumentError("--json is for the part gpu"));
  }
  if (line->Has("path") && !names("offload")) {
    return ReportMisuse(absl::InvalidArgumentError("--path is for the part offload"));
  }
  if (StartedAsRank()) {
    const absl::Status status = RunAsRank();
    return status.ok() ? kDone : ReportFailure(status, /*rank=*/-1);
  }
  // Without a name, what takes a minute or two and needs no GPU and no disk.
  const auto wanted = [&](absl::string_view part) {
    return line->positional.empty() || names(part);
  };
  absl::Status status;
  // First the part that starts processes: that is not allowed once there are threads.
  if (status.ok() && wanted("ranks")) status = BenchTwoRanks(program);
  if (status.ok() && wanted("plan")) status = BenchPlan();
  if (status.ok() && wanted("adamw")) status = BenchAdamW();
  if (status.ok() && wanted("step")) status = BenchStep();
  if (status.ok() && names("capacity")) status = PrintCapacities();
  if (status.ok() && names("offload")) status = BenchOffload(line->Get("path", "."));
  if (status.ok() && names("gpu")) status = BenchGpuAndWrite(line->Get("json", ""));
  return status.ok() ? kDone : ReportFailure(status, /*rank=*/-1);
}

}  // namespace tessera
