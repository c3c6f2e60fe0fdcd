// Checkpoints, through the command.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/command.h"

namespace tessera::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFolder[] = "checkpoint.folder=saved";

class CheckpointTest : public ::testing::Test {
 protected:
  static std::vector<std::string> Arguments(const std::vector<std::string>& settings,
                                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "train", "run.yaml",       "--metrics", "metrics.jsonl",     "--set", "batch.global=8",
        "--set", "precision=bf16", "--set",     "model.dropout=0.1", "--set", "evaluate.every=3"};
    for (const std::string& setting : settings) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  Result Train(const std::vector<std::string>& settings, const std::vector<std::string>& more = {},
               const Command::Options& options = {}) {
    return RunCommand(Arguments(settings, more), options);
  }

  void ExpectRefusal(const std::vector<std::string>& settings, const std::string& part,
                     const std::vector<std::string>& more = {}) {
    const Result result = Train(settings, more);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_EQ(CountErrors(result.error), 1) << result.error;
    EXPECT_THAT(result.error, HasSubstr(part));
  }

  // What the metrics tell of the arithmetic, to the last bit.
  std::vector<std::string> Told() {
    std::vector<std::string> told;
    for (const json& line : ReadMetrics(place_ / "metrics.jsonl")) {
      for (const char* member : {"loss", "grad_norm", "learning_rate", "validation_loss"}) {
        if (line.contains(member)) {
          told.push_back(absl::StrCat(line["step"].dump(), " ", member, " ", line[member].dump()));
        }
      }
    }
    told.push_back(ReadMetrics(place_ / "metrics.jsonl").back()["weights_digest"].dump());
    return told;
  }

  size_t Lines() {
    const std::filesystem::path metrics = place_ / "metrics.jsonl";
    return std::filesystem::exists(metrics) ? ReadMetrics(metrics).size() : 0;
  }

  std::vector<std::string> Saved() {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(place_ / "saved")) {
      const std::string name = entry.path().filename();
      if (name != ".lock") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  Workplace place_;
};

TEST_F(CheckpointTest, ARunThatIsStoppedGoesOnAnywhere) {
  // So many that it is stopped before it is done.
  const std::string steps = kSanitized ? "schedule.steps=100" : "schedule.steps=400";
  ASSERT_EQ(Train({steps}).status, 0);
  const std::vector<std::string> whole = Told();

  std::filesystem::remove(place_ / "metrics.jsonl");
  Command first(Arguments({kFolder, steps}, {"--ranks", "2"}));
  ASSERT_TRUE(Eventually([&] { return Lines() > 4; }));
  first.Send(SIGTERM);
  Result result = first.Wait();
  ASSERT_EQ(result.status, 130) << result.error << result.out;
  EXPECT_EQ(Saved().size(), 1);

  result = Train({kFolder, steps, "resume=auto", "zero.stage=0", "offload=host"});
  ASSERT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat("resumed from saved/")));
  EXPECT_EQ(Told(), whole);

  // Of a run that is done, nothing is left to do.
  result = Train({kFolder, steps, "resume=auto"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_EQ(Told().back(), whole.back());
}

TEST_F(CheckpointTest, SomeAreKept) {
  ASSERT_EQ(Train({kFolder, "schedule.steps=9", "checkpoint.every=2", "checkpoint.keep.last=2",
                   "checkpoint.keep.every=4"})
                .status,
            0);
  EXPECT_THAT(Saved(), ::testing::ElementsAre("step-00000004", "step-00000008", "step-00000009"));
  int told = 0;
  for (const json& line : ReadMetrics(place_ / "metrics.jsonl")) {
    if (!line.contains("checkpoint")) continue;
    ++told;
    EXPECT_THAT(line["checkpoint"].get<std::string>(), HasSubstr("saved/step-0000000"));
    EXPECT_GT(line["checkpoint_bytes"], 0);
  }
  EXPECT_EQ(told, 5);
}

TEST_F(CheckpointTest, WhatDoesNotGoOn) {
  ASSERT_EQ(Train({kFolder, "schedule.steps=4", "checkpoint.every=2"}).status, 0);
  const std::string saved = "resume=saved/step-00000002";
  const std::string other = "checkpoint.folder=other";
  ExpectRefusal({saved, other, "schedule.steps=4", "model.width=32"},
                "saved/step-00000002: the checkpoint is of a run with model.width = 16, this one "
                "has model.width = 32; a checkpoint goes on with its own model only");
  ExpectRefusal({saved, other, "schedule.steps=4", "precision=fp32"},
                "of a run with precision = bf16, this one has precision = fp32; set it so, or "
                "change it on purpose with --allow precision");
  ExpectRefusal({saved, other, "schedule.steps=5"}, "--allow schedule.steps");
  ExpectRefusal({saved, other, "schedule.steps=4"}, "--allow colour is no setting",
                {"--allow", "colour"});
  ExpectRefusal({saved, other, "schedule.steps=4", "model.width=32"},
                "--allow model.width: a checkpoint goes on with its own model only",
                {"--allow", "model.width"});
  ExpectRefusal({"resume=nowhere", "schedule.steps=4"}, "nowhere/manifest.json: cannot open");
  ExpectRefusal({kFolder, "schedule.steps=4"},
                "saved: has checkpoints up to step 4, and this run would begin anew");
  ExpectRefusal({saved, kFolder, "schedule.steps=4"}, "up to step 4, newer than step 2");

  // Other data, found when they are open.
  WriteTokens(place_ / "fewer.bin", SomeTokens(900));
  const Result result = Train({saved, other, "schedule.steps=4", "data.train=fewer.bin"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(CountErrors(result.error), 1) << result.error;
  EXPECT_THAT(result.error, HasSubstr("this one has 900 tokens"));

  // On purpose.
  EXPECT_EQ(Train({saved, other, "schedule.steps=6", "optimizer.learning_rate=1e-3",
                   "data.train=fewer.bin"},
                  {"--allow", "learning_rate,schedule", "--allow", "data"})
                .status,
            0);
}

TEST_F(CheckpointTest, AutoTakesTheNewestThatIsIntact) {
  const std::vector<std::string> settings = {kFolder, "schedule.steps=4", "checkpoint.every=1",
                                             "resume=auto"};
  Result result = Train(settings);
  ASSERT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("no checkpoint in saved: begins anew"));
  const std::vector<std::string> whole = Told();

  // One has lost its end, another a bit.
  const std::filesystem::path shard =
      place_ / "saved" / "step-00000004" / "shard-00000-of-00001.safetensors";
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  const std::string flipped = "saved/step-00000003/shard-00000-of-00001.safetensors";
  std::string content = ReadFile(place_ / flipped);
  content[content.size() / 2] ^= 1;
  WriteFile(place_ / flipped, content);
  for (const char* ranks : {"1", "2"}) {
    result = Train(settings, {"--ranks", ranks});
    ASSERT_EQ(result.status, 0) << result.error;
    EXPECT_THAT(result.out, HasSubstr("note: passed over a checkpoint: saved/step-00000004/shard"));
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat(flipped, ": bytes from offset ")));
    EXPECT_THAT(result.out, HasSubstr("resumed from saved/step-00000002, after step 2"));
    EXPECT_EQ(Told(), whole);
    // Both have been written again.
    if (*ranks == '1') {
      content = ReadFile(place_ / flipped);
      content[content.size() / 2] ^= 1;
      WriteFile(place_ / flipped, content);
      std::filesystem::resize_file(shard, 9);
    }
  }

  for (const std::string& name : Saved()) {
    std::filesystem::remove(place_ / "saved" / name / "manifest.json");
  }
  ExpectRefusal(settings, "saved: none of its 3 checkpoints is intact");
}

// Whenever all its processes are killed, the newest checkpoint is whole and goes on to the
// same end. TESSERA_LONG=1 kills 200 times.
TEST_F(CheckpointTest, KilledAtAnyMoment) {
  const std::vector<std::string> settings = {kFolder, "schedule.steps=100", "resume=auto",
                                             "checkpoint.every=1", "model.width=64"};
  ASSERT_EQ(Train({"schedule.steps=100", "model.width=64"}).status, 0);
  const std::vector<std::string> whole = Told();
  const int kills = std::getenv("TESSERA_LONG") != nullptr ? 200 : kSanitized ? 3 : 10;
  const RandomKey random = {9, RandomPurpose::kSample, 0};
  int64_t newest = -1;
  int in_a_save = 0;
  for (int kill = 0; kill < kills; ++kill) {
    const bool alone = kill % 3 != 0;
    std::vector<std::string> more;
    if (!alone) more = {"--ranks", "2"};
    {
      const size_t before = Lines();
      Command command(Arguments(settings, more));
      ASSERT_TRUE(Eventually([&] { return Lines() != before; }));
      std::map<int, pid_t> ranks;
      if (!alone) ranks = command.Ranks(2);
      std::this_thread::sleep_for(std::chrono::microseconds(random.Word(kill) % 40'000));
      for (const auto& [rank, process] : ranks) ::kill(process, SIGKILL);
      command.Send(SIGKILL);
      command.Wait();
    }
    int64_t step = -1;
    for (const std::string& name : Saved()) {
      if (name[0] == '.') {
        ++in_a_save;
      } else {
        step = std::max<int64_t>(step, std::stoll(name.substr(5)));
      }
    }
    EXPECT_GE(step, newest) << "after kill " << kill;
    newest = step;
    if (newest >= 60) {  // and from the beginning
      std::filesystem::remove_all(place_ / "saved");
      newest = -1;
    }
  }
  if (kills == 200) {
    EXPECT_GT(in_a_save, 0);
  }
  const Result result = Train(settings);
  ASSERT_EQ(result.status, 0) << result.error;
  EXPECT_EQ(Told(), whole);
}

TEST_F(CheckpointTest, TheCommand) {
  const std::vector<std::string> settings = {kFolder, "schedule.steps=4", "checkpoint.every=2"};
  ASSERT_EQ(Train(settings).status, 0);
  std::filesystem::rename(place_ / "saved", place_ / "one");
  ASSERT_EQ(Train(settings, {"--ranks", "2"}).status, 0);
  std::filesystem::rename(place_ / "saved", place_ / "two");
  std::vector<std::string> other = settings;
  other.emplace_back("seed=2");
  ASSERT_EQ(Train(other).status, 0);

  Result result = RunCommand({"checkpoint", "list", "two"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out,
              ::testing::MatchesRegex("two/step-00000004  step 4, 32 sequences, .* in 2 files\n"
                                      "two/step-00000002  step 2, 16 sequences, .* in 2 files\n"));
  result = RunCommand({"checkpoint", "diff", "one/step-00000004", "two/step-00000004"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_EQ(result.out, "no difference\n");
  result = RunCommand({"checkpoint", "diff", "one/step-00000004", "saved/step-00000004"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.out, HasSubstr("seed = 1 | seed = 2\n"));
  EXPECT_THAT(result.out, HasSubstr("master.embedding.wpe.weight: 128 of 128 elements, by up to"));
  result = RunCommand({"checkpoint", "verify", "two/step-00000002"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("\nintact\n"));
  const std::string shard = "two/step-00000002/shard-00001-of-00002.safetensors";
  std::string content = ReadFile(place_ / shard);
  content[100] ^= 4;
  WriteFile(place_ / shard, content);
  result = RunCommand({"checkpoint", "verify", "two/step-00000002"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.error, HasSubstr(shard + ": bytes from offset 0 to "));
  result = RunCommand({"checkpoint", "list", "nowhere"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(RunCommand({"checkpoint", "diff", "two"}).status, 2);
}

// A model that was trained here goes out, comes in again, and is trained on.
TEST_F(CheckpointTest, AModelGoesOutAndComesIn) {
  ASSERT_EQ(Train({kFolder, "schedule.steps=2"}, {"--ranks", "2"}).status, 0);
  ASSERT_EQ(RunCommand({"checkpoint", "convert", "saved/step-00000002", "out"}).status, 0);
  ASSERT_EQ(RunCommand({"checkpoint", "convert", "out", "begun"}).status, 0);
  const Result diff =
      RunCommand({"checkpoint", "diff", "saved/step-00000002", "begun/step-00000000"});
  EXPECT_EQ(diff.status, 1);
  EXPECT_THAT(diff.out, Not(HasSubstr("master.")));
  EXPECT_THAT(diff.out, HasSubstr("momentum."));
  const std::vector<std::string> settings = {"schedule.steps=2", "resume=begun/step-00000000"};
  const Result result = Train(settings, {"--ranks", "2"});
  EXPECT_EQ(result.status, 0) << result.error;
  EXPECT_THAT(result.out, HasSubstr("resumed from begun/step-00000000, after step 0"));
  ExpectRefusal({"schedule.steps=2", "resume=begun/step-00000000", "model.layers=2"},
                "the checkpoint is of a run with model.layers = 1, this one has model.layers = 2");
  EXPECT_EQ(RunCommand({"checkpoint", "convert", "saved/step-00000002", "out"}).status, 1);
  EXPECT_EQ(RunCommand({"checkpoint", "convert", "out", "x", "--precision", "fp8"}).status, 2);
}

TEST_F(CheckpointTest, ADiskThatIsFull) {
  // Of a file system that only this run sees, if the system lets a user have one.
  const std::string mount =
      "unshare --user --map-root-user --mount sh -c "
      "'mount -t tmpfs -o size=64k none small && exec \"$0\" \"$@\"' \"$0\" \"$@\"";
  std::filesystem::create_directory(place_ / "small");
  if (std::system("unshare --user --map-root-user --mount true") != 0 && geteuid() != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  Command::Options options;
  options.script = mount;
  const Result result = Train(
      {"checkpoint.folder=small/saved", "schedule.steps=4", "checkpoint.every=2", "model.width=64"},
      {}, options);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(CountErrors(result.error), 1) << result.error;
  EXPECT_THAT(result.error, HasSubstr("No space left on device"));
  // The run went on without the first one.
  EXPECT_THAT(result.out, HasSubstr("step 2  note: no checkpoint could be written: small/saved/"));
  EXPECT_EQ(ReadMetrics(place_ / "metrics.jsonl").back()["step"], 4);
}

TEST_F(CheckpointTest, AFolderForOneRun) {
  Command first(Arguments({kFolder, "schedule.steps=100000"}));
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(place_ / "saved" / ".lock"); }));
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(place_ / "metrics.jsonl"); }));
  std::vector<std::string> arguments = Arguments({kFolder, "schedule.steps=3"});
  arguments[3] = "other.jsonl";
  const Result second = RunCommand(arguments);
  EXPECT_EQ(second.status, 1);
  EXPECT_EQ(CountErrors(second.error), 1) << second.error;
  EXPECT_THAT(second.error, HasSubstr("another run writes its checkpoints there"));
  first.Send(SIGTERM);
  EXPECT_EQ(first.Wait().status, 130);
}

}  // namespace
}  // namespace tessera::testing
