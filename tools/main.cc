#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/bench_command.h"
#include "tools/data_command.h"
#include "tools/exit_status.h"
#include "tools/plan_command.h"
#include "tools/run_config.h"
#include "tools/train_command.h"

namespace tessera {
namespace {

constexpr char kUsage[] = R"(usage:
  tessera train CONFIG.yaml [--ranks N] [--set key.path=value]...
                [--metrics FILE.jsonl] [--curve FILE.svg] [--trace FILE.json]
  tessera plan CONFIG.yaml [--ranks N] [--set key.path=value]... [--json] [--print]
  tessera data TEXT... --train FILE --validation FILE [--held-out PERCENT]
  tessera bench [step] [adamw] [ranks] [plan]
  tessera keys          the table of a configuration's keys, in Markdown
)";

// This program's own file: the ranks must run the same one, wherever they start.
std::string ProgramPath(const char* called_as) {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), length) : called_as;
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(kUsage, stderr);
    return kMisused;
  }
  const std::string command = argv[1];
  const std::vector<std::string> arguments(argv + 2, argv + argc);
  if (command == "train") return TrainCommand(ProgramPath(argv[0]), arguments);
  if (command == "plan") return PlanCommand(arguments);
  if (command == "bench") return BenchCommand(ProgramPath(argv[0]), arguments);
  if (command == "data") return DataCommand(arguments);
  if (command == "keys") {
    std::fputs(RunConfigReference().c_str(), stdout);
    return kDone;
  }
  if (command == "help" || command == "--help" || command == "-h") {
    std::fputs(kUsage, stdout);
    return kDone;
  }
  return ReportMisuse(absl::InvalidArgumentError(
      absl::StrCat("there is no command \"", command, "\"; tessera help lists them")));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
