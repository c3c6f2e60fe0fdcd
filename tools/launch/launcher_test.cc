#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "core/mpi_communicator.h"
#include "core/process_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/launch/mpirun_errors.h"
#include "tools/launch/rank_errors.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Clock = std::chrono::steady_clock;

template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// The fake command, which has launched two ranks: under mpirun, or itself where it
// does not find that.
class LauncherTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !BuiltWithMpi()) GTEST_SKIP() << "built without MPI";
  }

  void Start(int milliseconds, const std::string& fault) {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
    const std::string command = std::getenv("FAKE_COMMAND");
    process_ = fork();
    ASSERT_GE(process_, 0);
    if (process_ != 0) return;
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      const std::string name = stream == STDOUT_FILENO ? "out" : "error";
      dup2(open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), stream);
    }
    if (!GetParam()) setenv("PATH", "/nonexistent", 1);
    unsetenv("XML_OUTPUT_FILE");
    unsetenv("TEST_PREMATURE_EXIT_FILE");
    execl(command.c_str(), command.c_str(), "launch", "2", "rank", folder_.c_str(),
          std::to_string(milliseconds).c_str(), fault.c_str(), nullptr);
    _exit(99);
  }

  void TearDown() override {
    if (process_ > 0) kill(process_, SIGKILL);
  }

  pid_t Rank(int rank) {
    const auto path = folder_ / std::to_string(rank);
    EXPECT_TRUE(Eventually([&] { return ReadFile(path).find('\n') != std::string::npos; }));
    return std::atoi(ReadFile(path).c_str());
  }

  bool HasSteps() {
    return Eventually([&] { return Out().find("step 1") != std::string::npos; });
  }

  void Send(int signal) { kill(process_, signal); }

  int Wait() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string Out() { return ReadFile(folder_ / "out"); }
  std::string Error() { return ReadFile(folder_ / "error"); }

  std::filesystem::path folder_;
  pid_t process_ = -1;
};

TEST_P(LauncherTest, Success) {
  Start(1, "none");
  EXPECT_EQ(Wait(), 0);
  EXPECT_EQ(Out(), "step 0\rstep 1\r");
  EXPECT_EQ(Error(), "");
}

TEST_P(LauncherTest, WrongConfigurationIsReportedOnce) {
  Start(1, "configuration");
  EXPECT_EQ(Wait(), 2);
  EXPECT_EQ(Error(), "tessera: error: a.yaml:3:1: unknown key\n");
}

TEST_P(LauncherTest, OneErrorLineFromTheRankThatFailed) {
  Start(1, "abort");
  EXPECT_EQ(Wait(), 1);
  EXPECT_EQ(Error(), "tessera: error: rank 1: cannot read the data\n");
}

TEST_P(LauncherTest, AKilledRankEndsAll) {
  Start(10, "endless");
  const pid_t ranks[] = {Rank(0), Rank(1)};
  ASSERT_TRUE(HasSteps());
  const auto start = Clock::now();
  kill(ranks[1], SIGKILL);
  EXPECT_EQ(Wait(), 1);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(ranks[0]) && !IsAlive(ranks[1]); }));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(Error(),
            "tessera: error: rank 1 was killed by signal 9 (SIGKILL); the other ranks were "
            "stopped. If nobody sent it, the machine may have run out of memory\n");
}

TEST_P(LauncherTest, InterruptLetsALongStepEnd) {
  for (const int signal : {SIGINT, SIGTERM}) {
    // After one second mpirun would end the ranks.
    Start(signal == SIGINT ? 1500 : 100, "endless");
    Rank(0);
    Rank(1);
    Send(signal);
    EXPECT_EQ(Wait(), 130);
    EXPECT_THAT(Error(), MatchesRegex("tessera: stopped after step [0-9]+\n"));
    std::filesystem::remove_all(folder_);
  }
}

TEST_P(LauncherTest, SecondInterruptEndsAtOnce) {
  Start(60000, "endless");
  const pid_t ranks[] = {Rank(0), Rank(1)};
  Send(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Send(SIGINT);
  EXPECT_EQ(Wait(), 130);
  EXPECT_EQ(Error(), "");
  EXPECT_TRUE(Eventually([&] { return !IsAlive(ranks[0]) && !IsAlive(ranks[1]); }));
}

TEST_P(LauncherTest, InterruptDuringTheStart) {
  for (const int milliseconds : {15, 60}) {
    Start(1, "endless");
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    Send(SIGINT);
    const int status = Wait();
    // Before the launcher holds the signal, it ends by it.
    EXPECT_TRUE(status == 130 || status == -SIGINT) << status << " after " << milliseconds;
    EXPECT_THAT(Error(), Not(HasSubstr("error")));
  }
}

TEST_P(LauncherTest, RanksDoNotOutliveTheCommand) {
  Start(10, "endless");
  const pid_t ranks[] = {Rank(0), Rank(1)};
  ASSERT_TRUE(HasSteps());
  Send(SIGKILL);
  EXPECT_EQ(Wait(), -SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !IsAlive(ranks[0]) && !IsAlive(ranks[1]); }));
}

TEST_P(LauncherTest, RanksDoNotOutliveMpirun) {
  if (!GetParam()) GTEST_SKIP();
  Start(10, "endless");
  const pid_t ranks[] = {Rank(0), Rank(1)};
  ASSERT_TRUE(HasSteps());
  const std::string id = std::to_string(process_);
  kill(std::atoi(ReadFile("/proc/" + id + "/task/" + id + "/children").c_str()), SIGKILL);
  EXPECT_EQ(Wait(), 1);
  EXPECT_EQ(Error(), "tessera: error: mpirun ended with status 137\n");
  EXPECT_TRUE(Eventually([&] { return !IsAlive(ranks[0]) && !IsAlive(ranks[1]); }));
}

TEST_P(LauncherTest, StatusOfARankThatSaysNothing) {
  Start(1, "silent");
  EXPECT_EQ(Wait(), 1);
  EXPECT_THAT(Error(), StartsWith(GetParam() ? "tessera: error: mpirun ended with status 7\n"
                                             : "tessera: error: rank 1 ended with status 7\n"));
}

INSTANTIATE_TEST_SUITE_P(, LauncherTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "UnderMpirun" : "Alone"; });

TEST(RankErrorsTest, OneErrorPasses) {
  std::string passed;
  RankErrors errors([&](absl::string_view line) { passed.append(line.data(), line.size()); });
  errors.Add("-----------------------\n[host:1] a rank's own\ntess");
  errors.Add("era: note\n");
  errors.Report("tessera: error: the launcher's");
  errors.Report("tessera: error: another");
  errors.Add("tessera: error: a rank's\nunfinished");
  errors.Finish();
  EXPECT_EQ(passed,
            "-----------------------\n[host:1] a rank's own\ntessera: note\n"
            "tessera: error: the launcher's\nunfinished\n");
  EXPECT_TRUE(errors.error_emitted());
}

TEST(MpirunErrorsTest, KeepsTheRanksLinesAndOneError) {
  const std::string stream =
      "a warning\n"
      "tessera: error: rank 1: first\r\n"
      "tessera: error: rank 0: second\n"
      "--------------------------------------------------------------------------\n"
      "Primary job  terminated normally, but 1 process returned\n"
      "tessera: a rank that speaks between\n"
      "--------------------------------------------------------------------------\n"
      "[host:123] 1 more process has sent help message help-mpi-api.txt / mpi-abort\n"
      "[host:45] PMIX ERROR: NOT_AVAILABLE in file dstore_base.c at line 671\n"
      "[warn] Epoll MOD(1) on fd 27 failed. Old events were 6: Bad file descriptor\n"
      "mpirun: Forwarding signal 10 to job\n"
      "[ 12%] of a rank's own\n"
      "unfinished";
  for (const size_t piece : {size_t{1}, size_t{7}, stream.size()}) {
    std::string passed;
    MpirunErrors errors([&](absl::string_view line) { passed.append(line.data(), line.size()); });
    for (size_t at = 0; at < stream.size(); at += piece)
      errors.lines().Add(stream.substr(at, piece));
    errors.lines().Finish();
    EXPECT_EQ(passed,
              "a warning\ntessera: error: rank 1: first\n"
              "tessera: a rank that speaks between\n[ 12%] of a rank's own\nunfinished\n");
    EXPECT_TRUE(errors.lines().error_emitted());
    EXPECT_FALSE(errors.killed_rank());
    EXPECT_THAT(errors.comments(), StartsWith("Primary job  terminated"));
  }
}

TEST(MpirunErrorsTest, FindsTheKilledRank) {
  MpirunErrors errors([](absl::string_view line) { FAIL() << line; });
  errors.lines().Add(
      "--------------------------------------------------------------------------\n"
      "prterun noticed that process rank 13 with PID 4711 on node a exited on\n"
      "signal 11 (Segmentation fault).\n"
      "--------------------------------------------------------------------------\n");
  errors.lines().Finish();
  ASSERT_TRUE(errors.killed_rank());
  EXPECT_EQ(errors.killed_rank()->rank, 13);
  EXPECT_EQ(errors.killed_rank()->signal, 11);
  EXPECT_FALSE(errors.lines().error_emitted());
}

}  // namespace
}  // namespace tessera
