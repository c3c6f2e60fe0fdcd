#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda_on_cpu/bugs/expected.h"
#include "tests/cuda_on_cpu/bugs/program.h"
#include "tests/cuda_on_cpu/random.h"

// Runs each program, with and without its bug, in a process of its own for each seed,
// and counts what shows the bug.
namespace tessera::cuda_on_cpu {
namespace {

constexpr int kWrongResult = 3;

constexpr Mode kMode = CurrentMode();
constexpr int kSeeds = kMode == Mode::kPlain ? 40 : kMode == Mode::kAddress ? 20 : 5;

Outcome RunOnce(const Program& program, bool bug, int seed) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::getenv("TESSERA_SHOW_REPORTS") == nullptr) {
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDERR_FILENO);
    }
    SetSeed(static_cast<uint64_t>(seed));
    _exit(program.run(bug) ? 0 : kWrongResult);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return OutcomeOf(status, kWrongResult);
}

using Counts = std::map<Outcome, int>;

Counts RunSeeds(const Program& program, bool bug) {
  Counts counts;
  for (int seed = 0; seed < kSeeds; ++seed) ++counts[RunOnce(program, bug, seed)];
  return counts;
}

void PrintRow(const char* name, Counts counts) {
  std::printf("| %-40s | %2d | %2d | %2d | %2d of %d |\n", name, counts[Outcome::kWrong],
              counts[Outcome::kReport] + counts[Outcome::kCrash], counts[Outcome::kSanitizer],
              kSeeds - counts[Outcome::kRight], kSeeds);
  std::fflush(stdout);
}

class BugsTest : public testing::TestWithParam<Program> {};

TEST_P(BugsTest, ShowsAndItsRepairDoesNot) {
  const Program& program = GetParam();
  EXPECT_EQ(RunSeeds(program, false)[Outcome::kRight], kSeeds)
      << program.name << ", without the bug";
  Counts counts = RunSeeds(program, true);
  PrintRow(program.name, counts);
  const Expected expected = ExpectedOf(program.name, kMode);
  const int caught = kSeeds - counts[Outcome::kRight];
  if (expected.outcome == Outcome::kRight) {
    EXPECT_EQ(caught, 0) << program.name << " is caught after all";
  } else {
    EXPECT_GE(counts[expected.outcome], 1) << program.name;
    EXPECT_GE(100 * caught, expected.percent * kSeeds) << program.name;
  }
}

std::vector<Program> AllPrograms() {
  std::vector<Program> all;
  for (const auto& programs : {KernelPrograms(), MemoryPrograms(), TensorCorePrograms(),
                               StreamPrograms(), MatmulPrograms(), CollectivePrograms()}) {
    all.insert(all.end(), programs.begin(), programs.end());
  }
  return all;
}

std::string NameOf(const testing::TestParamInfo<Program>& info) {
  std::string name;
  for (const char* c = info.param.name; *c != '\0'; ++c) {
    if (std::isalnum(static_cast<unsigned char>(*c)) != 0) name += *c;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, BugsTest, testing::ValuesIn(AllPrograms()), NameOf);

}  // namespace
}  // namespace tessera::cuda_on_cpu

// Children end at the first report, without its stack, with a status of their own.
extern "C" const char* __asan_default_options() { return "exitcode=77:detect_leaks=0:symbolize=0"; }
extern "C" const char* __ubsan_default_options() { return "exitcode=77:symbolize=0"; }
extern "C" const char* __tsan_default_options() {
  return "exitcode=66:halt_on_error=1:symbolize=0:atexit_sleep_ms=0";
}
