// How a run ends that something outside the program ends: always with one message,
// the promised status, and no process left.

#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/mpi_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/command.h"

namespace tessera::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> Train(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train", "run.yaml", "--metrics", "metrics.jsonl"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> Endless(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = Train(more);
  arguments.insert(arguments.end(), {"--set", "schedule.steps=1000000"});
  return arguments;
}

class FailureTest : public ::testing::Test {
 protected:
  bool HasSteps(const std::string& metrics = "metrics.jsonl") {
    return Eventually(
        [&] { return ReadFile(place_ / metrics).find("\n{\"step\":2,") != std::string::npos; });
  }

  // Steps that the metrics tell of, having checked that they end as a stopped run's do.
  int64_t StepsOfStoppedRun() {
    const auto lines = ReadMetrics(place_ / "metrics.jsonl");
    int64_t steps = 0;
    for (size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_EQ(lines[i]["step"], ++steps);
    if (lines.empty()) return 0;
    EXPECT_EQ(lines.back()["steps_done"], steps);
    EXPECT_TRUE(lines.back().contains("weights_digest"));
    return steps;
  }

  Workplace place_;
};

// With ranks of mpirun, and with the command's own.
class LaunchTest : public FailureTest, public ::testing::WithParamInterface<bool> {
 protected:
  static Command::Options World() {
    Command::Options options;
    options.without_mpirun = !GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(, LaunchTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "UnderMpirun" : "WithoutMpirun";
});

TEST_P(LaunchTest, AKilledRankEndsAll) {
  for (const int ranks : {2, 3}) {
    Command command(Endless({"--ranks", std::to_string(ranks)}), World());
    const auto processes = command.Ranks(ranks);
    ASSERT_TRUE(HasSteps());
    const auto start = std::chrono::steady_clock::now();
    kill(processes.at(ranks - 1), SIGKILL);
    const Result result = command.Wait();
    for (const auto& [rank, process] : processes) {
      EXPECT_TRUE(Eventually([p = process] { return !IsAlive(p); })) << rank;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.error, "tessera: error: rank " + std::to_string(ranks - 1) +
                                " was killed by signal 9 (SIGKILL); the other ranks were "
                                "stopped. If nobody sent it, the machine may have run out of "
                                "memory\n");
    std::filesystem::remove(place_ / "metrics.jsonl");
  }
}

TEST_P(LaunchTest, NoRankOutlivesTheCommand) {
  Command command(Endless({"--ranks", "2"}), World());
  const auto processes = command.Ranks(2);
  ASSERT_TRUE(HasSteps());
  command.Send(SIGKILL);
  EXPECT_EQ(command.Wait().status, -SIGKILL);
  for (const auto& [rank, process] : processes) {
    EXPECT_TRUE(Eventually([p = process] { return !IsAlive(p); })) << rank;
  }
}

TEST_P(LaunchTest, NanLossIsReportedOnce) {
  for (const char* ranks : {"1", "2", "3"}) {
    const Result result =
        RunCommand(Endless({"--ranks", ranks, "--set", "optimizer.learning_rate=1e30"}), World());
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.error,
                MatchesRegex("tessera: error: rank 0: the loss of micro-batch 0 is -?nan at step "
                             "2; lower the learning rate, lengthen the warmup, or look at the "
                             "data\n"));
    const auto lines = ReadMetrics(place_ / "metrics.jsonl");
    ASSERT_EQ(lines.size(), 1);
    EXPECT_EQ(lines[0]["step"], 1);
  }
}

TEST_P(LaunchTest, DataThatChangesUnderTheRun) {
  for (const char* ranks : {"", "3"}) {
    std::filesystem::copy_file(place_ / "train.bin", place_ / "copy.bin",
                               std::filesystem::copy_options::overwrite_existing);
    std::vector<std::string> arguments = Endless({"--set", "data.train=copy.bin"});
    if (*ranks != 0) arguments.insert(arguments.end(), {"--ranks", ranks});
    Command command(arguments, World());
    ASSERT_TRUE(HasSteps());
    const auto start = std::chrono::steady_clock::now();
    std::filesystem::resize_file(place_ / "copy.bin", 2000);
    const Result result = command.Wait();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.error,
                MatchesRegex("tessera: error: rank [0-2]: copy.bin: changed size while in use, "
                             "from 5024 to 2000 bytes; leave data files alone during a run\n"));
    std::filesystem::remove(place_ / "metrics.jsonl");
  }
}

// One rank of a world that mpirun started is given something else.
class OneRankDiffersTest : public FailureTest {
 protected:
  void SetUp() override {
    if (!BuiltWithMpi()) GTEST_SKIP();
  }
  static Command::Options World(int ranks, const std::string& more) {
    Command::Options options;
    options.script = "exec mpirun -np " + std::to_string(ranks) +
                     " sh -c '[ $OMPI_COMM_WORLD_RANK = 1 ] && more=\"" + more +
                     "\"; exec \"$0\" \"$@\" $more' \"$0\" \"$@\"";
    return options;
  }
};

TEST_F(OneRankDiffersTest, NoData) {
  const Result result = RunCommand(Train({}), World(2, "--set data.train=nothing.bin"));
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(CountErrors(result.error), 1) << result.error;
  EXPECT_THAT(result.error, HasSubstr("tessera: error: rank 1: nothing.bin: cannot open the token "
                                      "file: No such file or directory\n"));
  EXPECT_FALSE(std::filesystem::exists(place_ / "metrics.jsonl"));
}

TEST_F(OneRankDiffersTest, DataThatChanges) {
  std::filesystem::copy_file(place_ / "train.bin", place_ / "copy.bin");
  Command command(Endless({}), World(3, "--set data.train=copy.bin"));
  const auto processes = command.Ranks(3);
  ASSERT_TRUE(HasSteps());
  const auto start = std::chrono::steady_clock::now();
  std::filesystem::resize_file(place_ / "copy.bin", 2000);
  const Result result = command.Wait();
  for (const auto& [rank, process] : processes) {
    EXPECT_TRUE(Eventually([p = process] { return !IsAlive(p); })) << rank;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(CountErrors(result.error), 1) << result.error;
  EXPECT_THAT(result.error, HasSubstr("tessera: error: rank 1: copy.bin: changed size"));
}

TEST_F(OneRankDiffersTest, WrongConfiguration) {
  const Result result = RunCommand(Train({}), World(2, "--set zero.stage=4"));
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(CountErrors(result.error), 1) << result.error;
  EXPECT_THAT(result.error, HasSubstr("tessera: error: --set zero.stage: zero.stage is 4; expected "
                                      "an integer from 0 to 3\n"));
  EXPECT_FALSE(std::filesystem::exists(place_ / "metrics.jsonl"));
}

// Each would train on, wrongly, if nobody compared.
TEST_F(OneRankDiffersTest, AnotherConfiguration) {
  const struct {
    const char *setting, *message;
  } cases[] = {
      {"optimizer.learning_rate=0.5",
       "rank 1 has optimizer.learning_rate = 0.5, rank 0 has optimizer.learning_rate = 0.01"},
      {"zero.stage=2", "rank 1 has zero.stage = 2, rank 0 has zero.stage = 3"},
      {"schedule.steps=4", "rank 1 has schedule.steps = 4, rank 0 has schedule.steps = 3"},
  };
  for (const auto& c : cases) {
    const Result result = RunCommand(Train({}), World(2, std::string("--set ") + c.setting));
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(CountErrors(result.error), 1) << result.error;
    EXPECT_THAT(result.error, HasSubstr(std::string("tessera: error: ") + c.message +
                                        "; start all ranks with the same configuration\n"));
    EXPECT_FALSE(std::filesystem::exists(place_ / "metrics.jsonl"));
  }
  std::filesystem::copy_file(place_ / "train.bin", place_ / "local.bin");
  const char* own = "--set data.train=local.bin --set threads=2";
  EXPECT_EQ(RunCommand(Train({}), World(2, own)).status, 0);
}

TEST_F(FailureTest, MetricsThatCannotBeWritten) {
  for (const char* ranks : {"1", "2"}) {
    const auto run = [&](const char* metrics) {
      std::vector<std::string> arguments = {"train", "run.yaml", "--metrics", metrics};
      if (*ranks != '1') arguments.insert(arguments.end(), {"--ranks", ranks});
      return RunCommand(arguments);
    };
    const Result full = run("/dev/full");
    EXPECT_EQ(full.status, 1);
    EXPECT_EQ(full.error,
              "tessera: error: rank 0: /dev/full: cannot write: No space left on device\n");
    const Result missing = run("no/metrics.jsonl");
    EXPECT_EQ(missing.status, 1);
    EXPECT_EQ(missing.error,
              "tessera: error: rank 0: no/metrics.jsonl: cannot create: No such file or "
              "directory\n");
  }
}

TEST_F(FailureTest, PicturesThatCannotBeWrittenAreToldBeforeTheFirstStep) {
  for (const char* option : {"--curve", "--trace"}) {
    const Result result = RunCommand(Endless({option, "no/picture"}));
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.error,
              "tessera: error: rank 0: no/picture: cannot create: No such file or directory\n");
    EXPECT_THAT(result.out, Not(HasSubstr("step ")));
  }
}

TEST_F(FailureTest, StandardOutputThatIsGone) {
  Command::Options full;
  full.out = "/dev/full";
  const std::vector<std::string> calls[] = {
      {"plan", "run.yaml", "--json"}, {"plan", "run.yaml", "--print"}, {"keys"}, {"help"}};
  for (const auto& arguments : calls) {
    const Result result = RunCommand(arguments, full);
    EXPECT_EQ(result.status, 1) << arguments[0];
    EXPECT_EQ(result.error, "tessera: error: cannot write all of standard output\n");
  }
}

TEST_F(FailureTest, TrainingOutlivesItsReader) {
  // The first line is read, then nobody reads any more.
  for (const char* ranks : {"1", "2"}) {
    Command::Options piped;
    piped.script = "{ \"$0\" \"$@\"; echo $? > status; } | head -n 1";
    std::vector<std::string> arguments = Train({"--set", "evaluate.every=1"});
    arguments.insert(arguments.end(), {"--set", "schedule.steps=20"});
    if (*ranks != '1') arguments.insert(arguments.end(), {"--ranks", ranks});
    const Result result = RunCommand(arguments, piped);
    EXPECT_EQ(ReadFile(place_ / "status"), "0\n");
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(ReadMetrics(place_ / "metrics.jsonl").back()["steps_done"], 20);
  }
}

TEST_F(FailureTest, ClosedStreams) {
  Command::Options closed;
  closed.closed_streams = {0, 1, 2};
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> arguments = Train({"--set", "data.validation=\"\""});
    if (*ranks != '1') arguments.insert(arguments.end(), {"--ranks", ranks});
    EXPECT_EQ(RunCommand(arguments, closed).status, 0);
    EXPECT_EQ(ReadMetrics(place_ / "metrics.jsonl").size(), 4);
  }
}

TEST_P(LaunchTest, StopsAtTheEndOfAStep) {
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const int ranks : {1, 2, 3}) {
      if (kSanitized && ranks == 3) continue;
      std::vector<std::string> arguments = Endless({});
      if (ranks > 1) arguments.insert(arguments.end(), {"--ranks", std::to_string(ranks)});
      Command command(arguments, World());
      ASSERT_TRUE(HasSteps());
      command.Send(signal);
      const Result result = command.Wait();
      EXPECT_EQ(result.status, 130);
      EXPECT_EQ(result.error, "");
      const int64_t steps = StepsOfStoppedRun();
      EXPECT_GE(steps, 2);
      EXPECT_THAT(result.out, HasSubstr("stopped after step " + std::to_string(steps) + "\n"));
      std::filesystem::remove(place_ / "metrics.jsonl");
    }
  }
}

// Longer than the second that mpirun allows its ranks.
TEST_P(LaunchTest, WaitsForALongStep) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Command command(
        Endless({"--ranks", "2", "--set", "model.width=64", "--set", "model.context=64", "--set",
                 "batch.micro=8", "--set", kSanitized ? "batch.global=256" : "batch.global=4096"}),
        World());
    ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(place_ / "metrics.jsonl"); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    command.Send(signal);
    const Result result = command.Wait();
    EXPECT_EQ(result.status, 130);
    EXPECT_EQ(result.error, "");
    EXPECT_GE(StepsOfStoppedRun(), 1);
    std::filesystem::remove(place_ / "metrics.jsonl");
  }
}

TEST_P(LaunchTest, DuringTheStart) {
  for (const int milliseconds : {50, 200, 400}) {
    Command command(Endless({"--ranks", "2"}), World());
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    command.Send(SIGINT);
    const Result result = command.Wait();
    // Before the command holds the signal, it ends by it.
    EXPECT_THAT(result.status, AnyOf(130, -SIGINT));
    EXPECT_EQ(CountErrors(result.error), 0) << result.error;
  }
}

}  // namespace
}  // namespace tessera::testing
