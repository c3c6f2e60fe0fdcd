// What lives off the device, through the command.

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/command.h"

namespace tessera::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class OffloadTest : public ::testing::Test {
 protected:
  OffloadTest() { std::filesystem::create_directory(place_ / "nvme"); }

  static std::vector<std::string> Settings(const std::vector<std::string>& settings) {
    std::vector<std::string> arguments = {"--set", "batch.global=8", "--set", "precision=bf16",
                                          "--set", "model.layers=2", "--set", "model.width=64"};
    for (const std::string& setting : settings) {
      arguments.insert(arguments.end(), {"--set", setting});
    }
    return arguments;
  }

  Result Run(const std::string& command, const std::vector<std::string>& settings,
             const std::vector<std::string>& more = {}, const Command::Options& options = {}) {
    std::vector<std::string> arguments = {command, "run.yaml"};
    for (const auto& list : {Settings(settings), more}) {
      arguments.insert(arguments.end(), list.begin(), list.end());
    }
    return RunCommand(arguments, options);
  }

  json PlanOf(const std::vector<std::string>& settings, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = more;
    arguments.emplace_back("--json");
    const Result result = Run("plan", settings, arguments);
    EXPECT_EQ(result.status, 0) << result.error;
    return json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }

  // Losses and norms of every step, and the line with the weights' digest.
  std::vector<std::string> Outcome(const std::vector<std::string>& settings,
                                   std::vector<std::string> more = {}) {
    json moved = PlanOf(settings, more)["traffic"];
    for (const char* sent : {"communication", "control", "evaluation"}) moved.erase(sent);
    more.insert(more.end(), {"--metrics", "metrics.jsonl"});
    const Result result = Run("train", settings, more);
    EXPECT_EQ(result.status, 0) << result.error;
    std::vector<std::string> outcome;
    for (const json& line : ReadMetrics(place_ / "metrics.jsonl")) {
      if (line.contains("loss")) {
        EXPECT_EQ(line["traffic"], moved);
      }
      for (const char* member : {"loss", "grad_norm", "validation_loss", "weights_digest"}) {
        if (line.contains(member)) outcome.push_back(line[member].dump());
      }
    }
    EXPECT_TRUE(std::filesystem::is_empty(place_ / "nvme"));
    return outcome;
  }

  // Whether a run that does not fit is refused with changes that each make it fit.
  void ExpectHelp(const std::vector<std::string>& settings) {
    const Result refused = Run("plan", settings);
    ASSERT_EQ(refused.status, 2);
    const std::string begin = "it fits with ";
    const size_t at = refused.error.find(begin);
    ASSERT_NE(at, std::string::npos) << refused.error;
    std::string remedies = refused.error.substr(at + begin.size());
    remedies.pop_back();
    for (const absl::string_view remedy : absl::StrSplit(remedies, ", or with ")) {
      std::vector<std::string> changed = settings;
      for (const absl::string_view setting : absl::StrSplit(remedy, " and ")) {
        const std::pair<std::string, std::string> parts = absl::StrSplit(setting, ": ");
        changed.push_back(absl::StrCat(parts.first, "=", parts.second));
      }
      const Result helped = Run("plan", changed);
      EXPECT_EQ(helped.status, 0) << remedy << ": " << helped.error;
    }
  }

  Workplace place_;
};

const char* const kFolder = "memory.nvme.path=nvme";

TEST_F(OffloadTest, SameBitsWhereverThingsLive) {
  const std::vector<std::string> plain = Outcome({});
  for (const std::vector<std::string>& settings :
       {std::vector<std::string>{"offload=host"},
        {kFolder, "offload=nvme", "zero.stage=0"},
        {kFolder, "offload.optimizer={tier: nvme, fraction: 0.3}", "offload.gradients=host"},
        {"offload.parameters=host", "offload.activations=host", "recompute=block"}}) {
    for (const char* ranks : {"1", "2"}) {
      if (kSanitized && *ranks == '2') continue;
      std::vector<std::string> more;
      if (*ranks != '1') more = {"--ranks", ranks};
      EXPECT_EQ(Outcome(settings, more), plain) << settings.back() << " ranks " << ranks;
    }
  }
}

// In bf16 a parameter's gradient goes out and its new value comes in, however many
// backward passes a step has.
TEST_F(OffloadTest, FourBytesOfEveryParameterCrossTheBus) {
  for (const char* micro : {"8", "2", "1"}) {
    const json plan = PlanOf({"offload.optimizer=host", absl::StrCat("batch.micro=", micro)});
    const int64_t parameters = plan["memory"]["device"]["parameters"].get<int64_t>() / 2;
    EXPECT_EQ(plan["traffic"]["copy_in"], 2 * parameters);
    EXPECT_EQ(plan["traffic"]["copy_out"], 2 * parameters);
    EXPECT_EQ(plan["memory"]["host"]["optimizer"], 12 * parameters);
    EXPECT_EQ(plan["memory"]["device"]["optimizer"], 0);
  }
}

TEST_F(OffloadTest, AFractionIsWhatItSays) {
  const int64_t all = PlanOf({})["memory"]["device"]["optimizer"];
  const json plan = PlanOf({kFolder, "offload.optimizer={tier: nvme, fraction: 0.3}"});
  const int64_t moved = plan["memory"]["nvme"]["optimizer"];
  EXPECT_EQ(plan["memory"]["device"]["optimizer"].get<int64_t>() + moved, all);
  EXPECT_NEAR(static_cast<double>(moved) / static_cast<double>(all), 0.3, 0.02);
  EXPECT_EQ(plan["traffic"]["nvme_read"], moved);
  EXPECT_EQ(plan["traffic"]["nvme_write"], moved);
}

// With a quarter of what stage 0 needs, the same run, with the same bits.
TEST_F(OffloadTest, AutoFitsAQuarter) {
  const std::vector<std::string> common = {"recompute=block", "batch.micro=1", "zero.stage=0",
                                           "model.width=128", "model.layers=4"};
  const int64_t all = PlanOf(common)["memory"]["device"]["peak"];
  std::vector<std::string> quarter = common;
  quarter.push_back(absl::StrCat("memory.device=", all / 4, "B"));
  const Result refused = Run("train", quarter);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.error, HasSubstr("it fits with "));
  quarter.emplace_back("offload=auto");
  const json plan = PlanOf(quarter);
  EXPECT_LE(plan["memory"]["device"]["peak"], all / 4);
  EXPECT_NE(plan["offload"]["optimizer"]["tier"], "device");
  EXPECT_EQ(Outcome(quarter), Outcome(common));
}

TEST_F(OffloadTest, AutoMovesNothingThatFits) {
  const json plan = PlanOf({"offload=auto"});
  for (const char* category : {"optimizer", "gradients", "parameters", "activations"}) {
    EXPECT_EQ(plan["offload"][category]["tier"], "device") << category;
  }
}

// Every change that a refusal names does make the run fit.
TEST_F(OffloadTest, RemediesHelp) {
  const int64_t all = PlanOf({"model.width=128"})["memory"]["device"]["peak"];
  for (const int percent : {90, 60, 40, 25}) {
    ExpectHelp({"model.width=128", absl::StrCat("memory.device=", all * percent / 100, "B")});
  }
}

// A refusal once kept to the accumulation that there was before the micro-batch shrank,
// and said that no settings make the run fit.
TEST_F(OffloadTest, ARunThatNeedsEveryRemedy) {
  if (kSanitized) GTEST_SKIP() << "many plans, which take minutes";
  const std::vector<std::string> given = {"model.width=128", "batch.micro=8"};
  std::vector<std::string> least = {"model.width=128", "batch.micro=1",     "batch.accumulation=8",
                                    "recompute=block", "batch.sum_group=8", "offload=host"};
  for (const bool has_nvme : {false, true}) {
    if (has_nvme) least.insert(least.end(), {kFolder, "offload=nvme"});
    const json needed = PlanOf(least)["memory"];
    const int64_t device = needed["device"]["peak"];
    std::vector<std::string> tight = given;
    if (has_nvme) tight.emplace_back(kFolder);
    tight.push_back(absl::StrCat("memory.host=", needed["host"]["peak"].get<int64_t>(), "B"));
    tight.push_back(absl::StrCat("memory.device=", device, "B"));
    ExpectHelp(tight);
    tight.back() = absl::StrCat("memory.device=", device - 1, "B");
    const Result refused = Run("plan", tight);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(
        refused.error,
        HasSubstr(absl::StrCat(
            "no settings make it fit (recompute: block and batch.micro: 1 and batch.accumulation: "
            "8 and batch.sum_group: 8 and offload: ",
            has_nvme ? "nvme" : "host", " need ", device, " bytes on the device, ")));
  }
}

// So many ranks as a refusal says are enough, and the half of them are not.
TEST_F(OffloadTest, MoreRanksHelp) {
  std::vector<std::string> given = {"batch.micro=1", "model.width=256"};
  std::vector<std::string> sharded = given;
  sharded.insert(sharded.end(), {"recompute=block", "offload=host", "zero.stage=3"});
  const json needed = PlanOf(sharded, {"--ranks", "8"})["memory"];
  for (const char* tier : {"device", "host"}) {
    given.push_back(absl::StrCat("memory.", tier, "=", needed[tier]["peak"].get<int64_t>(), "B"));
    sharded.push_back(given.back());
  }
  const Result refused = Run("plan", given);
  EXPECT_EQ(refused.status, 2);
  const std::string begin = "or more memory, or ";
  const size_t at = refused.error.find(begin);
  ASSERT_NE(at, std::string::npos) << refused.error;
  const int ranks = std::stoi(refused.error.substr(at + begin.size()));
  EXPECT_EQ(Run("plan", sharded, {"--ranks", absl::StrCat(ranks)}).status, 0);
  EXPECT_EQ(Run("plan", sharded, {"--ranks", absl::StrCat(ranks / 2)}).status, 2);
}

TEST_F(OffloadTest, AutoNeedsTheFolderThatIsNamed) {
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> more;
    if (*ranks != '1') more = {"--ranks", ranks};
    const Result result = Run("train", {"offload=auto", "memory.nvme.path=nowhere"}, more);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.error,
              "tessera: error: nowhere: cannot tell what is free in the folder of "
              "memory.nvme.path: No such file or directory (errno 2); make the folder, or name "
              "another\n");
  }
}

TEST_F(OffloadTest, TheHostIsOneByteTooSmall) {
  const std::vector<std::string> settings = {"offload.optimizer=host", "model.width=128"};
  const int64_t needed = PlanOf(settings)["memory"]["host"]["peak"];
  std::vector<std::string> exact = settings;
  exact.push_back(absl::StrCat("memory.host=", needed, "B"));
  EXPECT_EQ(Run("train", exact).status, 0);
  exact.back() = absl::StrCat("memory.host=", needed - 1, "B");
  const Result refused = Run("train", exact);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.error, HasSubstr(absl::StrCat("the run needs ", needed,
                                                    " bytes of host memory per rank, 1 "
                                                    "more than the ",
                                                    needed - 1,
                                                    " there are (memory.host), most of them for "
                                                    "optimizer")));
}

// One message, from the rank that failed; nothing is left behind.
void ExpectFailure(const Result& result, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.status, 1) << result.error;
  EXPECT_EQ(CountErrors(result.error), 1) << result.error;
  for (const std::string& part : parts) EXPECT_THAT(result.error, HasSubstr(part));
}

TEST_F(OffloadTest, AFolderThatIsNotThere) {
  const std::vector<std::string> before = place_.Files();
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> more;
    if (*ranks != '1') more = {"--ranks", ranks};
    const Result result =
        Run("train", {"offload.optimizer=nvme", "memory.nvme.path=nowhere"}, more);
    ExpectFailure(result, {"nowhere: cannot make the file of ", " bytes of the NVMe tier",
                           "errno 2", "make the folder"});
    EXPECT_EQ(place_.Files(), before);
  }
}

TEST_F(OffloadTest, ADiskThatIsFull) {
  // Of a file system that only this run sees, if the system lets a user have one.
  const std::string mount =
      "unshare --user --map-root-user --mount sh -c "
      "'mount -t tmpfs -o size=16k none nvme && exec \"$0\" \"$@\"' \"$0\" \"$@\"";
  const std::string probe = mount.substr(0, mount.find("&&")) + "' sh";
  if (std::system(probe.c_str()) != 0 && geteuid() != 0) {
    GTEST_SKIP() << "no file system can be mounted here";
  }
  Command::Options options;
  options.script = mount;
  const Result result = Run("train", {kFolder, "offload.optimizer=nvme"}, {}, options);
  ExpectFailure(result, {"nvme: cannot make the file of ", "No space left on device (errno 28)",
                         "16384 bytes are free there"});
  EXPECT_TRUE(std::filesystem::is_empty(place_ / "nvme"));
}

TEST_F(OffloadTest, AFileThatMayNotBeSoLarge) {
  Command::Options options;
  // Half a MiB or one, by the shell: sanitizers write some files of their own.
  options.script = "ulimit -f 1024; exec \"$0\" \"$@\"";
  const Result result =
      Run("train", {kFolder, "offload.optimizer=nvme", "model.width=128"}, {}, options);
  ExpectFailure(result, {"File too large (errno 27)", "ulimit -f"});
}

// The way to a running command's file, which has no name; empty while there is none.
std::string FileOf(const Command& command) {
  std::error_code error;
  const std::string descriptors = absl::StrCat("/proc/", command.process(), "/fd");
  for (const auto& entry : std::filesystem::directory_iterator(descriptors, error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (target.find("/nvme/") != std::string::npos) return entry.path();
  }
  return "";
}

// What nobody should be able to do: the file loses its end in the middle of a run.
TEST_F(OffloadTest, AFileThatIsCut) {
  Command command({"train", "run.yaml", "--set", kFolder, "--set", "offload=nvme", "--set",
                   "schedule.steps=100000", "--metrics", "metrics.jsonl"});
  ASSERT_TRUE(Eventually([&] { return ReadMetrics(place_ / "metrics.jsonl").size() > 2; }));
  // Again and again: a write behind the cut makes the file as long as it was.
  EXPECT_TRUE(Eventually([&] { return truncate(FileOf(command).c_str(), 4096) != 0; }));
  const Result result = command.Wait();
  ExpectFailure(result, {"the NVMe tier in nvme: reading ", " bytes at offset ", " ended after "});
  EXPECT_TRUE(std::filesystem::is_empty(place_ / "nvme"));
}

// The folder's name may go while the run goes on: its file has none.
TEST_F(OffloadTest, AFolderThatVanishes) {
  Command command({"train", "run.yaml", "--set", kFolder, "--set", "offload=nvme", "--set",
                   kSanitized ? "schedule.steps=40" : "schedule.steps=400"});
  ASSERT_TRUE(Eventually([&] { return !FileOf(command).empty(); }));
  std::filesystem::remove(place_ / "nvme");
  const Result result = command.Wait();
  EXPECT_EQ(result.status, 0) << result.error;
}

// Two runs in one folder do not meet, and one that is killed leaves nothing.
TEST_F(OffloadTest, TwoRunsShareAFolder) {
  const std::vector<std::string> arguments = {
      "train", "run.yaml", "--set", kFolder, "--set", "offload=nvme", "--set", "schedule.steps=40"};
  std::vector<std::string> measured = arguments;
  measured.insert(measured.end(), {"--metrics", "first.jsonl"});
  Command first(measured);
  measured.back() = "second.jsonl";
  Command second(measured), killed(arguments);
  killed.Send(SIGKILL);
  const Result one = first.Wait();
  const Result two = second.Wait();
  EXPECT_EQ(one.status, 0) << one.error;
  EXPECT_EQ(two.status, 0) << two.error;
  EXPECT_EQ(ReadMetrics(place_ / "first.jsonl").back()["weights_digest"],
            ReadMetrics(place_ / "second.jsonl").back()["weights_digest"]);
  killed.Wait();
  EXPECT_TRUE(std::filesystem::is_empty(place_ / "nvme"));
}

}  // namespace
}  // namespace tessera::testing
