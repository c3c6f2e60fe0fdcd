// What the command says of a wrong command line, configuration or data file, with
// which status, and that it leaves nothing behind.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/mpi_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/command.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class BadInputTest : public ::testing::Test {
 protected:
  // Training with all outputs asked for, so that one left behind would show.
  static std::vector<std::string> Train(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"train",   "run.yaml",  "--metrics", "metrics.jsonl",
                                          "--curve", "curve.svg", "--trace",   "trace.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  void ExpectRefusal(const std::vector<std::string>& arguments, int status,
                     const std::string& message, const Command::Options& options = {}) {
    const std::vector<std::string> before = place_.Files();
    const Result result = RunCommand(arguments, options);
    EXPECT_EQ(result.status, status) << message;
    EXPECT_EQ(result.error, "tessera: error: " + message + "\n");
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(place_.Files(), before) << message;
  }

  // The command alone and as the parent of two ranks.
  void ExpectRefusals(const std::vector<std::string>& settings, int status,
                      const std::string& message) {
    std::vector<std::string> more;
    for (const std::string& setting : settings) more.insert(more.end(), {"--set", setting});
    ExpectRefusal(Train(more), status, message);
    more.insert(more.end(), {"--ranks", "2"});
    ExpectRefusal(Train(more), status, message);
  }

  Workplace place_;
};

TEST_F(BadInputTest, CommandLines) {
  const struct {
    std::vector<std::string> arguments;
    std::string message;
  } cases[] = {
      {{"trian", "run.yaml"}, "there is no command \"trian\"; did you mean train?"},
      {{"deploy"}, "there is no command \"deploy\"; tessera help lists them"},
      {{""}, "there is no command \"\"; tessera help lists them"},
      {{"train"}, "a configuration is missing; give its path"},
      {{"plan", "--json"}, "a configuration is missing; give its path"},
      {{"train", "run.yaml", "run.yaml"}, "\"run.yaml\" is one argument too many"},
      {{"train", "run.yaml", "--rank", "2"}, "there is no option --rank; did you mean --ranks?"},
      {{"train", "run.yaml", "--metric=a"}, "there is no option --metric; did you mean --metrics?"},
      {{"train", "run.yaml", "--json"}, "there is no option --json"},
      {{"train", "run.yaml", "--"}, "there is no option --"},
      {{"plan", "run.yaml", "--jsn"}, "there is no option --jsn; did you mean --json?"},
      {{"plan", "run.yaml", "--json=1"}, "--json takes no value; remove it"},
      {{"plan", "run.yaml", "--metrics", "a"}, "there is no option --metrics"},
      {{"train", "run.yaml", "--ranks"}, "--ranks lacks its value"},
      {{"train", "run.yaml", "--metrics="}, "--metrics lacks its value"},
      {{"train", "run.yaml", "--set", ""}, "--set lacks its value"},
      {{"train", "run.yaml", "--ranks", "0"},
       "--ranks is \"0\"; expected a whole number from 1 to 1048576"},
      {{"train", "run.yaml", "--ranks", "-1"},
       "--ranks is \"-1\"; expected a whole number from 1 to 1048576"},
      {{"train", "run.yaml", "--ranks=two"},
       "--ranks is \"two\"; expected a whole number from 1 to 1048576"},
      {{"plan", "run.yaml", "--ranks", "2000000"},
       "--ranks is \"2000000\"; expected a whole number from 1 to 1048576"},
      {{"plan", "run.yaml", "--ranks", "99999999999999999999"},
       "--ranks is \"99999999999999999999\"; expected a whole number from 1 to 1048576"},
      {{"train", "run.yaml", "--set", "seed"}, "--set seed: expected --set key.path=value"},
      {{"train", "run.yaml", "--set", "sed=1"}, "--set sed: sed is not a key; did you mean seed?"},
      {{"train", "run.yaml", "--set", "seed=1", "--set", "seed=x"},
       "--set seed: seed is x; expected an integer of at least 0"},
      {{"train", "run.yaml", "--set", "seed=\xff"},
       "--set seed: seed is \\xff; expected an integer of at least 0"},
      {{"train", "no.yaml"}, "no.yaml: cannot open the configuration: No such file or directory"},
      {{"train", "no.yaml", "--ranks", "2"},
       "no.yaml: cannot open the configuration: No such file or directory"},
      {{"plan", "."}, ".: not a regular file; expected a YAML file"},
      {{"data", "run.yaml", "--train", "a"}, "data needs --train FILE and --validation FILE"},
      {{"data", "run.yaml", "--train", "a", "--validation", "b", "--held-out", "100"},
       "--held-out is \"100\"; expected a whole number from 1 to 99"},
  };
  for (const auto& c : cases) ExpectRefusal(c.arguments, 2, c.message);
  // What YAML says of it is not ours.
  const Result binary = RunCommand({"train", "train.bin"});
  EXPECT_EQ(binary.status, 2);
  EXPECT_THAT(binary.error, StartsWith("tessera: error: train.bin"));
}

TEST_F(BadInputTest, Help) {
  const Result help = RunCommand({"help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, StartsWith("usage:\n  tessera train CONFIG.yaml"));
  const std::vector<std::string> calls[] = {
      {"--help"}, {"-h"}, {"train", "--help"}, {"plan", "x", "-h"}};
  for (const auto& arguments : calls) {
    const Result result = RunCommand(arguments);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.out, help.out);
  }
  const Result nothing = RunCommand({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_EQ(nothing.error, help.out);
}

TEST_F(BadInputTest, RanksUnderMpirun) {
  if (!BuiltWithMpi()) GTEST_SKIP();
  Command::Options options;
  options.script = "exec mpirun -np 1 \"$0\" \"$@\"";
  const Result result = RunCommand(Train({"--ranks", "2"}), options);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(CountErrors(result.error), 1);
  EXPECT_THAT(result.error,
              HasSubstr("tessera: error: --ranks starts ranks of its own, but mpirun or srun has "
                        "started this one; leave it out\n"));
}

TEST_F(BadInputTest, Configurations) {
  const struct {
    std::vector<std::string> settings;
    std::string message;
  } cases[] = {
      {{"model.layer=3"},
       "--set model.layer: model.layer is not a key; did you mean model.layers?"},
      {{"gradient_clipping=1"},
       "--set gradient_clipping: gradient_clipping is DeepSpeed's name; use optimizer.clip_norm"},
      {{"model.layers=many"},
       "--set model.layers: model.layers is many; expected an integer from 1 to 10000"},
      {{"model.layers=-1"},
       "--set model.layers: model.layers is -1; expected an integer from 1 to 10000"},
      {{"model.layers=0"},
       "--set model.layers: model.layers is 0; expected an integer from 1 to 10000"},
      {{"seed=9223372036854775808"},
       "--set seed: seed is 9223372036854775808; expected an integer of at least 0"},
      {{"optimizer.learning_rate=.nan"},
       "--set optimizer.learning_rate: optimizer.learning_rate is .nan; expected a number above 0"},
      {{"optimizer.learning_rate=1e999"},
       "--set optimizer.learning_rate: optimizer.learning_rate is 1e999; expected a number above "
       "0"},
      {{"precision=fp16"}, "--set precision: precision is fp16; expected one of fp32, bf16"},
      {{"zero.stage=4"}, "--set zero.stage: zero.stage is 4; expected an integer from 0 to 3"},
      {{"zero.bucket=64mb"},
       "--set zero.bucket: zero.bucket is 64mb; expected a size such as 64MiB or 1GB, of at least "
       "1KiB"},
      {{"memory.device=99999999TiB"},
       "--set memory.device: memory.device is 99999999TiB; expected a size such as 64MiB or 1GB, "
       "of at least 1MiB"},
      {{"offload.optimizer=disk"},
       "--set offload.optimizer: offload.optimizer is disk; expected one of device, host, nvme, "
       "auto, or a map of tier, fraction"},
      {{"model.heads=3"},
       "--set model.heads: model.heads = 3 does not divide model.width = 16; change one of them"},
      {{"batch.micro=5"},
       "run.yaml:6:9: batch.global = 12 is no multiple of batch.micro = 5; use 10 or 15"},
      {{"schedule.warmup_steps=4"},
       "--set schedule.warmup_steps: schedule.warmup_steps = 4 is more than schedule.steps = 3; "
       "lower it"},
      {{"evaluate.every=1", "data.validation=\"\""},
       "--set evaluate.every: evaluate.every needs data to evaluate on; give data.validation"},
      {{"sample.length=4"},
       "--set sample.length: sample.length needs a text to go on from; give sample.prompt"},
      {{"data.train=\"\""},
       "--set data.train: data.train is \"\"; expected the path of a token file"},
      {{"model.heads=3", "zero.stage=x"},
       "--set zero.stage: zero.stage is x; expected an integer from 0 to 3\n"
       "--set model.heads: model.heads = 3 does not divide model.width = 16; change one of them"},
  };
  for (const auto& c : cases) ExpectRefusals(c.settings, 2, c.message);
}

TEST_F(BadInputTest, ConfigurationsThatSuitAnotherWorld) {
  ExpectRefusal(Train({"--set", "batch.global=1", "--ranks", "2"}), 2,
                "--set batch.global: batch.global / batch.micro = 1 / 1 = 1, fewer micro-batches "
                "than the 2 ranks; raise batch.global, lower batch.micro, or start fewer ranks");
  ExpectRefusal(Train({"--ranks", "1048576"}), 2,
                "run.yaml:6:9: batch.global / batch.micro = 12 / 1 = 12, fewer micro-batches than "
                "the 1048576 ranks; raise batch.global, lower batch.micro, or start fewer ranks");
  ExpectRefusal(Train({"--ranks", "5"}), 2,
                "run.yaml:6:9: batch.global / batch.micro = 12 / 1 = 12 micro-batches, which do "
                "not divide among the 5 ranks; use 10 or 15 for batch.global");
}

TEST_F(BadInputTest, APlanThatDoesNotFit) {
  const std::string needs =
      "tessera: error: the run needs [0-9]+ bytes of device memory per rank, [0-9]+ more than the "
      "[0-9]+ there are \\(memory.device\\), most of them for [a-z_]+ \\([0-9]+ bytes\\); ";
  const std::map<std::string, std::string> advice = {
      {"1",
       "it fits with [a-z_.]+: [a-z0-9]+( and [a-z_.]+: [a-z0-9]+)*"
       "(, or with [a-z_.]+: [a-z0-9]+( and [a-z_.]+: [a-z0-9]+)*)*"},
      {"2",
       "no settings make it fit \\([a-z_.]+: [a-z0-9]+( and [a-z_.]+: [a-z0-9]+)* need [0-9]+ "
       "bytes on the device, [0-9]+ on the host\\); take a smaller model or context, or more "
       "memory(, or [0-9]+ ranks, each with as much memory, and zero.stage: 3)?"}};
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> arguments =
        Train({"--set", "memory.device=1MiB", "--set",
               *ranks == '1' ? "model.width=64" : "model.width=256"});
    if (*ranks != '1') arguments.insert(arguments.end(), {"--ranks", ranks});
    const std::vector<std::string> before = place_.Files();
    const Result result = RunCommand(arguments);
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.error, ::testing::MatchesRegex(needs + advice.at(ranks) + "\n"));
    EXPECT_EQ(place_.Files(), before);
  }
  const Result plan = RunCommand(
      {"plan", "run.yaml", "--json", "--set", "memory.device=1MiB", "--set", "model.width=64"});
  EXPECT_EQ(plan.status, 2);
  EXPECT_EQ(CountErrors(plan.error), 1);
  EXPECT_EQ(plan.out, "");
}

TEST_F(BadInputTest, DataFiles) {
  const auto tokens = SomeTokens(500);
  WriteFile(place_ / "empty.bin", "");
  WriteFile(place_ / "odd.bin", "abc");
  WriteTokens(place_ / "magic.bin", tokens, -1, 20240326);
  WriteTokens(place_ / "unknown.bin", tokens, -1, 20240400);
  WriteTokens(place_ / "cut.bin", tokens, 600);
  WriteTokens(place_ / "long.bin", tokens, 400);
  WriteTokens(place_ / "few.bin", SomeTokens(8));
  WriteFile(place_ / "header.bin", ReadFile(place_ / "train.bin").substr(0, 500));
  std::filesystem::create_directory(place_ / "folder.bin");
  std::filesystem::create_symlink("nowhere", place_ / "dangling.bin");
  const struct {
    std::string file, message;
  } cases[] = {
      {"missing.bin", "cannot open the token file: No such file or directory"},
      {"dangling.bin", "cannot open the token file: No such file or directory"},
      {"folder.bin", "not a regular file; expected a token file"},
      {"empty.bin", "empty; expected a token file"},
      {"odd.bin",
       "3 bytes and no llm.c header at offset 0; uint16 tokens take an even number of bytes: the "
       "file is cut short, or is not a token file"},
      {"magic.bin",
       "offset 0: magic number 20240326 is a model of llm.c; expected 20240520 (uint16 tokens) or "
       "20240801 (uint32 tokens)"},
      {"cut.bin",
       "2024 bytes, but the header (offset 8) says 600 tokens of 2 bytes; expected 2224 bytes: the "
       "file is cut short, make it again"},
      {"long.bin",
       "2024 bytes, but the header (offset 8) says 400 tokens of 2 bytes; expected 1824 bytes: the "
       "file is too long, make it again"},
      {"header.bin",
       "500 bytes, but the llm.c header alone takes 1024; the file is cut short: make it again"},
      {"few.bin",
       "8 tokens; expected at least 9 for one sequence of 8: use more data, or a smaller "
       "model.context"},
  };
  for (const auto& c : cases) {
    ExpectRefusal(Train({"--set", "data.train=" + c.file}), 1,
                  "rank 0: " + c.file + ": " + c.message);
    ExpectRefusal(Train({"--set", "data.validation=" + c.file}), 1,
                  "rank 0: " + c.file + ": " + c.message);
  }
  for (const char* file : {"missing.bin", "cut.bin"}) {
    const Result result =
        RunCommand(Train({"--ranks", "2", "--set", std::string("data.train=") + file}));
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(CountErrors(result.error), 1);
    EXPECT_THAT(result.error, ::testing::MatchesRegex("tessera: error: rank [01]: .*\n"));
    EXPECT_FALSE(std::filesystem::exists(place_ / "metrics.jsonl"));
  }
}

TEST_F(BadInputTest, ATokenOutOfRange) {
  auto tokens = SomeTokens(500);
  tokens[123] = 256;
  WriteTokens(place_ / "range.bin", tokens);
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> arguments =
        Train({"--set", "data.train=range.bin", "--set", "schedule.steps=20"});
    if (*ranks != '1') arguments.insert(arguments.end(), {"--ranks", ranks});
    const Result result = RunCommand(arguments);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.error,
                ::testing::MatchesRegex(
                    "tessera: error: rank [01]: range.bin: offset 1270: token number 123 is 256; "
                    "expected less than the vocabulary of 256: raise model.vocabulary, or use data "
                    "of the model's own tokenizer\n"));
    EXPECT_FALSE(std::filesystem::exists(place_ / "curve.svg"));
  }
}

}  // namespace
}  // namespace tessera::testing
