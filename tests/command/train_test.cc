// What a run tells, through the command: the same at every stage and in every
// world, and what the plan foretold.

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/command/command.h"

namespace tessera::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TrainTest : public ::testing::Test {
 protected:
  json PlanOf(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"plan", "run.yaml", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = RunCommand(arguments);
    EXPECT_EQ(result.status, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }

  Result Train(std::vector<std::string> more, const Command::Options& options = {}) {
    more.insert(more.begin(), {"train", "run.yaml", "--metrics", "metrics.jsonl"});
    Result result = RunCommand(more, options);
    EXPECT_EQ(result.status, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return result;
  }

  // The text of a member in each line that has it: equal texts are equal bits.
  std::vector<std::string> Texts(const std::string& member) {
    std::vector<std::string> texts;
    std::istringstream lines(ReadFile(place_ / "metrics.jsonl"));
    const std::string name = "\"" + member + "\":";
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find(name);
      if (at == std::string::npos) continue;
      const size_t begin = at + name.size();
      texts.push_back(line.substr(begin, line.find_first_of(",}", begin) - begin));
    }
    return texts;
  }

  Workplace place_;
};

// A few runs take the time of one: everything that must be equal is compared here.
TEST_F(TrainTest, SameAtEveryStageInEveryWorldAsPlanned) {
  const struct {
    int ranks;
    bool without_mpirun;
  } worlds[] = {{1, false}, {2, false}, {2, true}, {4, false}, {4, true}};
  struct Outcome {
    std::vector<std::string> losses, norms, validations, digests;
    std::string sample;
    bool operator==(const Outcome&) const = default;
  };
  const std::vector<std::string> settings = {
      "--set", "batch.global=8",     "--set", "model.layers=2",   "--set", "model.dropout=0.1",
      "--set", "evaluate.every=2",   "--set", "sample.prompt=ab", "--set", "sample.length=6",
      "--set", "evaluate.batches=2", "--set", "precision=bf16"};
  Outcome first;
  for (const int stage : {0, 1, 2, 3}) {
    for (const auto& [ranks, without_mpirun] : worlds) {
      if (kSanitized && (ranks == 4 || stage % 3 != 0)) continue;
      SCOPED_TRACE("stage " + std::to_string(stage) + " ranks " + std::to_string(ranks) +
                   (without_mpirun ? " without mpirun" : ""));
      std::vector<std::string> arguments = settings;
      arguments.insert(arguments.end(), {"--set", "zero.stage=" + std::to_string(stage)});
      if (ranks > 1) arguments.insert(arguments.end(), {"--ranks", std::to_string(ranks)});
      Command::Options options;
      options.without_mpirun = without_mpirun;
      const Result result = Train(arguments, options);

      const size_t sample = result.out.find("\nsample:\n");
      ASSERT_NE(sample, std::string::npos);
      const Outcome outcome = {Texts("loss"), Texts("grad_norm"), Texts("validation_loss"),
                               Texts("weights_digest"), result.out.substr(sample)};
      ASSERT_EQ(outcome.losses.size(), 3);
      ASSERT_EQ(outcome.validations.size(), 2);  // after steps 2 and 3
      ASSERT_EQ(outcome.digests.size(), 1);
      EXPECT_THAT(outcome.sample, StartsWith("\nsample:\nab"));
      if (first.losses.empty()) first = outcome;
      EXPECT_TRUE(outcome == first) << result.out << ReadFile(place_ / "metrics.jsonl");

      const json plan = PlanOf(arguments);
      int64_t categories = 0;
      for (const char* category : {"parameters", "gradients", "optimizer", "partial_sums",
                                   "activations", "workspace", "communication"}) {
        ASSERT_TRUE(plan["memory"]["device"][category].is_number_unsigned()) << category;
        categories += plan["memory"]["device"][category].get<int64_t>();
      }
      const auto peak = plan["memory"]["device"]["peak"].get<int64_t>();
      EXPECT_GT(peak, 0);
      EXPECT_LE(peak, categories);  // not all are at their most at once
      for (const json& line : ReadMetrics(place_ / "metrics.jsonl")) {
        if (!line.contains("loss")) continue;
        EXPECT_EQ(line["memory"]["device"], peak);
        EXPECT_EQ(line["bytes_sent"], plan["traffic"]["communication"]);
        EXPECT_EQ(line["control_bytes_sent"], plan["traffic"]["control"]);
      }
      EXPECT_EQ(plan["traffic"]["communication"] == 0, ranks == 1);
    }
  }
}

TEST_F(TrainTest, MetricsHaveWhatScriptsRelyOn) {
  Train({"--set", "evaluate.every=3"});
  const auto lines = ReadMetrics(place_ / "metrics.jsonl");
  ASSERT_EQ(lines.size(), 5);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    for (const char* name : {"loss", "grad_norm", "learning_rate", "tokens_per_second", "mfu",
                             "seconds", "exposed_communication_seconds"}) {
      ASSERT_TRUE(lines[i][name].is_number_float()) << name;
    }
    for (const char* name :
         {"loss", "grad_norm", "learning_rate", "tokens_per_second", "mfu", "seconds"}) {
      EXPECT_GT(lines[i][name], 0) << name;
      // The shortest text that reads back to the same bits.
      const auto value = lines[i][name].get<double>();
      EXPECT_EQ(std::strtod(Texts(name)[i].c_str(), nullptr), value) << name;
    }
    EXPECT_GT(lines[i]["memory"]["device"], 0);
    EXPECT_TRUE(lines[i]["bytes_sent"].is_number_integer());
    EXPECT_FALSE(lines[i].contains("validation_loss"));
  }
  EXPECT_EQ(lines[3]["step"], 3);
  EXPECT_GT(lines[3]["validation_loss"], 0);
  EXPECT_FALSE(lines[3].contains("loss"));
  EXPECT_EQ(lines[4]["steps_done"], 3);
  EXPECT_THAT(lines[4]["weights_digest"].get<std::string>(),
              ::testing::MatchesRegex("[0-9a-f]{16}"));
}

TEST_F(TrainTest, PlanOfAWorldThatIsNotHere) {
  const json plan = PlanOf({"--ranks", "64", "--set", "batch.global=128"});
  EXPECT_EQ(plan["world"], 64);
  EXPECT_EQ(plan["stage"], 3);
  EXPECT_EQ(plan["memory"]["nvme"]["peak"], 0);
  EXPECT_GT(plan["memory"]["host"]["peak"], 0);
  EXPECT_LT(plan["memory"]["host"]["peak"], plan["memory"]["device"]["peak"]);
  EXPECT_THAT(RunCommand({"plan", "run.yaml", "--print"}).out, HasSubstr("stage 3"));
}

TEST_F(TrainTest, SaysWhereThePromiseIsWithdrawn) {
  const auto note = [&](const char* stage, const char* more) {
    return "tessera" + RunCommand({"plan", "run.yaml", "--ranks", "2", "--set", "batch.global=6",
                                   "--set", std::string("zero.stage=") + stage, "--set", more})
                           .out;
  };
  const std::string withdrawn = "note: the same-bits promise is withdrawn: at stage ";
  for (const char* stage : {"0", "1"}) {
    EXPECT_THAT(note(stage, "batch.sum_group=1"), HasSubstr(withdrawn + stage));
    EXPECT_THAT(note(stage, "batch.sum_group=3"), Not(HasSubstr(withdrawn)));
    const Result run = Train(
        {"--ranks", "2", "--set", "batch.global=6", "--set", std::string("zero.stage=") + stage});
    EXPECT_THAT(run.out, HasSubstr(withdrawn + stage));
  }
  for (const char* stage : {"2", "3"}) {
    EXPECT_THAT(note(stage, "batch.sum_group=1"), Not(HasSubstr(withdrawn)));
  }
}

TEST_F(TrainTest, Pictures) {
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> more = {"--curve", "curve.svg", "--trace", "trace.json"};
    if (*ranks != '1') more.insert(more.end(), {"--ranks", ranks});
    EXPECT_THAT(Train(more).out, HasSubstr("loss curve: curve.svg\n"));
    const std::string curve = ReadFile(place_ / "curve.svg");
    EXPECT_THAT(curve, HasSubstr("<svg "));
    EXPECT_THAT(curve, HasSubstr("</svg>"));
    const json trace = json::parse(ReadFile(place_ / "trace.json"), nullptr, false);
    std::set<std::string> lanes;
    int instructions = 0;
    for (const json& event : trace["traceEvents"]) {
      if (event["name"] == "thread_name") lanes.insert(event["args"]["name"].get<std::string>());
      if (event["ph"] != "X") continue;
      ++instructions;
      EXPECT_GE(event["ts"], 0);
      EXPECT_GE(event["dur"], 0);
    }
    EXPECT_EQ(lanes, (std::set<std::string>{"communication", "compute", "host"}));
    EXPECT_EQ(instructions, PlanOf({"--ranks", ranks})["instructions"]);
    std::filesystem::remove(place_ / "curve.svg");
    std::filesystem::remove(place_ / "trace.json");
  }
}

TEST_F(TrainTest, SamplesAreAFunctionOfTheSeed) {
  const auto sample = [&](const char* seed, const char* temperature) {
    const std::string out = Train({"--set", "sample.prompt=\"a b\"", "--set", "sample.length=150",
                                   "--set", std::string("seed=") + seed, "--set",
                                   std::string("sample.temperature=") + temperature})
                                .out;
    return out.substr(out.find("\nsample:\n"));
  };
  const std::string drawn = sample("1", "1");
  EXPECT_THAT(drawn, StartsWith("\nsample:\na b"));
  EXPECT_EQ(sample("1", "1"), drawn);
  EXPECT_NE(sample("2", "1"), drawn);
  EXPECT_EQ(sample("1", "0"), sample("1", "0"));
  for (const char byte : drawn.substr(1)) {
    // A terminal would obey others.
    EXPECT_TRUE(byte == '\n' || byte == '\t' || ((byte & 0xff) >= ' ' && byte != 0x7f))
        << static_cast<int>(byte);
  }
}

TEST_F(TrainTest, PathsAreRelativeToWhereTheCommandStarts) {
  std::filesystem::create_directory(place_ / "configs");
  std::filesystem::rename(place_ / "run.yaml", place_ / "configs/run.yaml");
  const std::string absolute = place_ / "configs/run.yaml";
  Command::Options from_root;
  from_root.folder = "/";
  EXPECT_EQ(RunCommand({"train", "configs/run.yaml", "--ranks", "2"}).status, 0);
  for (const char* ranks : {"1", "2"}) {
    const Result elsewhere = RunCommand({"train", absolute, "--ranks", ranks}, from_root);
    EXPECT_EQ(elsewhere.status, 1);
    EXPECT_THAT(elsewhere.error, HasSubstr("train.bin: cannot open the token file"));
    EXPECT_EQ(RunCommand({"train", absolute, "--ranks", ranks, "--set",
                          "data.train=" + (place_ / "train.bin").string(), "--set",
                          "data.validation=" + (place_ / "validation.bin").string()},
                         from_root)
                  .status,
              0);
  }
}

TEST_F(TrainTest, TheLastSettingCounts) {
  Train({"--set", "schedule.steps=9", "--set", "schedule.steps=2"});
  EXPECT_EQ(ReadMetrics(place_ / "metrics.jsonl").back()["steps_done"], 2);
}

TEST_F(TrainTest, RunsSideBySide) {
  const std::vector<std::string> endless = {
      "train", "run.yaml", "--ranks", "2", "--set", "schedule.steps=1000000", "--metrics"};
  const auto start = [&](const char* metrics) {
    std::vector<std::string> arguments = endless;
    arguments.emplace_back(metrics);
    return arguments;
  };
  Command one(start("one.jsonl"));
  ASSERT_TRUE(Eventually([&] { return !ReadFile(place_ / "one.jsonl").empty(); }));
  EXPECT_EQ(RunCommand({"train", "run.yaml", "--ranks", "2", "--metrics", "two.jsonl"}).status, 0);
  EXPECT_EQ(ReadMetrics(place_ / "two.jsonl").back()["steps_done"], 3);
  const Result same = RunCommand({"train", "run.yaml", "--ranks", "2", "--metrics", "one.jsonl"});
  EXPECT_EQ(same.status, 1);
  EXPECT_EQ(same.error,
            "tessera: error: rank 0: one.jsonl: another run is writing it; give this one a file of "
            "its own\n");
  one.Send(SIGINT);
  EXPECT_EQ(one.Wait().status, 130);
  EXPECT_TRUE(ReadMetrics(place_ / "one.jsonl").back().contains("weights_digest"));
}

TEST_F(TrainTest, DataFromText) {
  std::string text;
  for (int i = 0; i < 500; ++i) text += "line " + std::to_string(i) + "\n";
  WriteFile(place_ / "text", text);
  const Result made = RunCommand({"data", "text", "--train", "train.bin", "--validation",
                                  "validation.bin", "--held-out", "10"});
  EXPECT_EQ(made.status, 0) << made.error;
  const auto tokens = [&](const char* name) {
    return (std::filesystem::file_size(place_ / name) - 1024) / 2;
  };
  EXPECT_EQ(tokens("train.bin") + tokens("validation.bin"), text.size());
  Train({});
  const Result missing = RunCommand({"data", "no", "--train", "a.bin", "--validation", "b.bin"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_EQ(missing.error, "tessera: error: cannot read no; give the path of a file of text\n");
  EXPECT_FALSE(std::filesystem::exists(place_ / "a.bin"));
}

}  // namespace
}  // namespace tessera::testing
