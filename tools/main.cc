#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/bench_command.h"
#include "tools/checkpoint_command.h"
#include "tools/command_line.h"
#include "tools/data_command.h"
#include "tools/exit_status.h"
#include "tools/plan_command.h"
#include "tools/run_config.h"
#include "tools/train_command.h"

namespace tessera {
namespace {

constexpr char kUsage[] = R"(usage:
  tessera train CONFIG.yaml [--ranks N] [--set key.path=value]...
                [--device auto|cpu|cuda] [--metrics FILE.jsonl]
                [--curve FILE.svg] [--trace FILE.json] [--allow KEY,...]
  tessera plan CONFIG.yaml [--ranks N] [--set key.path=value]...
                [--device cpu|cuda] [--json] [--print]
  tessera checkpoint list FOLDER | verify CHECKPOINT | diff A B
  tessera checkpoint convert FROM TO [--precision fp32|bf16]
  tessera data TEXT... --train FILE --validation FILE [--held-out PERCENT]
  tessera bench [step] [adamw] [ranks] [plan] [capacity] [offload [--path FOLDER]]
                [gpu [--json FILE.json]]
  tessera keys          the table of a configuration's keys, in Markdown
)";

// This program's own file: the ranks must run the same one, wherever they start.
std::string ProgramPath(const char* called_as) {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  return length > 0 ? std::string(path.data(), length) : called_as;
}

// Or a file that is opened later would take the place of a stream that is closed.
void OpenStandardStreams() {
  int descriptor = 0;
  do {
    descriptor = open("/dev/null", O_RDWR);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) close(descriptor);
}

bool AsksForHelp(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word == "--help" || word == "-h"; });
}

int Main(int argc, char** argv) {
  OpenStandardStreams();
  if (argc < 2) {
    std::fputs(kUsage, stderr);
    return kMisused;
  }
  const std::string command = argv[1];
  const std::vector<std::string> arguments(argv + 2, argv + argc);
  if (command == "help" || AsksForHelp({argv + 1, argv + argc})) {
    std::fputs(kUsage, stdout);
    return FinishOutput();
  }
  if (command == "train") return TrainCommand(ProgramPath(argv[0]), arguments);
  if (command == "plan") return PlanCommand(arguments);
  if (command == "bench") return BenchCommand(ProgramPath(argv[0]), arguments);
  if (command == "checkpoint") return CheckpointCommand(arguments);
  if (command == "data") return DataCommand(arguments);
  if (command == "keys") {
    std::fputs(RunConfigReference().c_str(), stdout);
    return FinishOutput();
  }
  const std::string nearest =
      NearestName(command, {"train", "plan", "checkpoint", "data", "keys", "help"});
  return ReportMisuse(absl::InvalidArgumentError(absl::StrCat(
      "there is no command \"", command, "\"; ",
      nearest.empty() ? "tessera help lists them" : absl::StrCat("did you mean ", nearest, "?"))));
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) { return tessera::Main(argc, argv); }
