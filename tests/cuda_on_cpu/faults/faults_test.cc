#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "tests/cuda_on_cpu/bugs/expected.h"

// Runs real tests on copies of real sources, in a process for each fault that is planted
// in them, and asserts that it is caught.
namespace tessera::cuda_on_cpu {
namespace {

struct PlantedFault {
  const char* name;
  const char* source;
  const char* tests;
  Outcome plain;
  Outcome races;

  Outcome Expected() const { return CurrentMode() == Mode::kThread ? races : plain; }
};

constexpr PlantedFault kFaults[] = {
#include "tests/cuda_on_cpu/faults/fault_table.inc"
};

constexpr int kFailedTest = 1;  // gtest's status

// Of `tests` with a fault, or with none for 0.
Outcome RunTests(int fault, const char* tests) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::getenv("TESSERA_SHOW_REPORTS") == nullptr) {
      const int nowhere = open("/dev/null", O_WRONLY);
      dup2(nowhere, STDOUT_FILENO);
      dup2(nowhere, STDERR_FILENO);
    }
    setenv("TESSERA_PLANTED_FAULT", std::to_string(fault).c_str(), 1);
    // The program that is run is no shard of this test.
    for (const char* name : {"TEST_TOTAL_SHARDS", "TEST_SHARD_INDEX", "XML_OUTPUT_FILE"}) {
      unsetenv(name);
    }
    alarm(120);  // for a fault that makes it hang
    const std::string filter = std::string("--gtest_filter=") + tests;
    execl("tests/cuda_on_cpu/faults/program", "program", filter.c_str(), "--gtest_fail_fast",
          nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return OutcomeOf(status, kFailedTest);
}

const char* TextOf(Outcome outcome) {
  constexpr const char* kTexts[] = {"-", "wrong", "reported", "stopped", "sanitizer"};
  return kTexts[static_cast<int>(outcome)];
}

class FaultsTest : public testing::TestWithParam<int> {};

TEST_P(FaultsTest, IsCaught) {
  const PlantedFault& fault = kFaults[GetParam() - 1];
  if (CurrentMode() == Mode::kThread && fault.plain != Outcome::kRight &&
      std::getenv("TESSERA_LONG") == nullptr) {
    GTEST_SKIP() << "seen sooner without ThreadSanitizer";
  }
  const Outcome outcome = RunTests(GetParam(), fault.tests);
  std::printf("| %s | %s | %s |\n", fault.name, fault.source, TextOf(outcome));
  // What it shows as may differ from run to run: wrong values lead to others, to an end,
  // or to a test that fails before the race is seen.
  EXPECT_EQ(outcome == Outcome::kRight, fault.Expected() == Outcome::kRight);
}

std::string NameOf(const testing::TestParamInfo<int>& info) {
  std::string name;
  for (const char* c = kFaults[info.param - 1].name; *c != '\0'; ++c) {
    if (std::isalnum(static_cast<unsigned char>(*c)) != 0) name += *c;
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, FaultsTest,
                         testing::Range(1, static_cast<int>(std::size(kFaults)) + 1), NameOf);

// What the other tests run, those of the kernels, run without faults by themselves.
TEST(WithoutAFault, TrainingIsRightWithoutAFault) {
  EXPECT_STREQ(TextOf(RunTests(0, "FaultyTraining.*")), TextOf(Outcome::kRight));
}

}  // namespace
}  // namespace tessera::cuda_on_cpu
