#include "tools/run_config.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "core/config/config_reader.h"
#include "core/config/schema.h"
#include "core/status.h"
#include "tools/deepspeed_names.h"
#include "tools/run_config_checks.h"

namespace tessera {
namespace {

constexpr auto kExcluded = RealRange::End::kExcluded;
constexpr int64_t kMost = kMostSequences;
constexpr int64_t kKiB = int64_t{1} << 10;
constexpr int64_t kMiB = int64_t{1} << 20;

void AddTop(Schema& schema, RunConfig& config) {
  schema.Section("", "### The run");
  schema.Integer("seed", config.seed, {.low = 0},
                 "Everything random follows from it: weights, dropout, the order of the data.");
  schema.Choice<DType>("precision", config.precision,
                       {{"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}},
                       "Type of parameters, activations and gradients; sums and the optimizer's "
                       "state are fp32.");
  schema.Choice<DeviceKind>("device", config.device,
                            {{"auto", DeviceKind::kAuto}, {"cpu", DeviceKind::kCpu}},
                            "Where each rank computes.");
  schema
      .Integer("threads", config.threads, {.low = 0, .high = 1024},
               "Threads of each rank. No result depends on it.")
      .Default("0: the machine's cores divided among its ranks");
  schema.Choice<Recompute>("recompute", config.recompute,
                           {{"none", Recompute::kNone}, {"block", Recompute::kBlock}},
                           "What the backward computes again instead of keeping it.");
  schema
      .Text("resume", config.resume,
            "Where to go on from; `auto` takes the newest intact checkpoint of "
            "`checkpoint.folder`, and begins where there is none.")
      .Expected("none, auto, or a checkpoint's folder");
}

void AddModel(Schema& schema, RunConfig::Model& model) {
  schema.Section("model", "### The model");
  schema.Choice<ModelFamily>("model.family", model.family, {{"gpt2", ModelFamily::kGpt2}},
                             "The architecture.");
  schema.Integer("model.layers", model.layers, {.low = 1, .high = 10'000}, "Blocks.").Required();
  schema
      .Integer("model.heads", model.heads, {.low = 1, .high = 65'536},
               "Attention heads; they divide the width.")
      .Required();
  schema
      .Integer("model.width", model.width, {.low = 1, .high = kMost},
               "Features of a token between blocks.")
      .Required();
  schema.Integer("model.context", model.context, {.low = 1, .high = kMost}, "Tokens of a sequence.")
      .Required();
  schema.Integer("model.vocabulary", model.vocabulary, {.low = 2, .high = 16 * kMost},
                 "Different tokens; 256 for bytes.");
  schema.Real("model.dropout", model.dropout, {.low = 0, .high = 1, .high_end = kExcluded},
              "Share of activations that are dropped in training.");
}

void AddData(Schema& schema, RunConfig::Data& data) {
  schema.Section("data", "### Data");
  schema.Text("data.train", data.train, "Token file of llm.c or nanoGPT to train on.")
      .Required()
      .Expected("the path of a token file");
  schema.Text("data.validation", data.validation, "Token file to evaluate on.")
      .Expected("the path of a token file");
}

void AddBatch(Schema& schema, RunConfig::Batch& batch) {
  schema.Section("batch",
                 "### Batch sizes, in sequences\n\n"
                 "Two of `global`, `micro` and `accumulation` are given; the third follows from "
                 "global = micro x accumulation x ranks.");
  schema
      .Integer("batch.global", batch.global, {.low = 1, .high = kMost},
               "Sequences of one optimizer step.")
      .Default("inferred");
  schema
      .Integer("batch.micro", batch.micro, {.low = 1, .high = kMost},
               "Sequences of one forward pass on one rank.")
      .Default("inferred");
  schema
      .Integer("batch.accumulation", batch.accumulation, {.low = 1, .high = kMost},
               "Forward passes of each rank in one step.")
      .Default("inferred");
  schema.Integer("batch.sum_group", batch.sum_group, {.low = 1, .high = kMost},
                 "Consecutive micro-batches whose gradients are added in order, before the "
                 "groups' sums are added as a tree.");
}

void AddOptimizer(Schema& schema, RunConfig::Optimizer& optimizer) {
  schema.Section("optimizer", "### Optimizer");
  schema.Choice<OptimizerName>("optimizer.name", optimizer.name, {{"adamw", OptimizerName::kAdamW}},
                               "The update rule.");
  schema
      .Real("optimizer.learning_rate", optimizer.learning_rate, {.low = 0, .low_end = kExcluded},
            "The highest learning rate of the schedule.")
      .Required();
  schema.Reals("optimizer.betas", absl::MakeSpan(optimizer.betas),
               {.low = 0, .high = 1, .high_end = kExcluded},
               "Decay of the first and of the second moment.");
  schema.Real("optimizer.epsilon", optimizer.epsilon, {.low = 0, .low_end = kExcluded},
              "Added to the root of the second moment.");
  schema.Real("optimizer.weight_decay", optimizer.weight_decay, {.low = 0},
              "Decoupled decay of the matrices.");
  schema.Real("optimizer.clip_norm", optimizer.clip_norm, {.low = 0},
              "Greatest norm of the whole gradient; 0 does not clip.");
}

void AddSchedule(Schema& schema, RunConfig::Schedule& schedule) {
  schema.Section("schedule", "### Learning-rate schedule");
  schema.Choice<ScheduleName>("schedule.name", schedule.name,
                              {{"constant", ScheduleName::kConstant},
                               {"cosine", ScheduleName::kCosine},
                               {"linear", ScheduleName::kLinear},
                               {"wsd", ScheduleName::kWarmupStableDecay}},
                              "The shape after the warmup; wsd is constant and decays at the end.");
  schema
      .Integer("schedule.steps", schedule.steps, {.low = 1, .high = int64_t{1} << 31},
               "Optimizer steps of the run.")
      .Required();
  schema.Integer("schedule.warmup_steps", schedule.warmup_steps, {.low = 0},
                 "Steps over which the learning rate grows linearly.");
  schema
      .Integer("schedule.decay_steps", schedule.decay_steps, {.low = 1},
               "Steps of the decay at the end of wsd; only there.")
      .Default("none");
  schema.Real("schedule.final_fraction", schedule.final_fraction, {.low = 0, .high = 1},
              "What is left of the learning rate in the end.");
}

void AddSharding(Schema& schema, RunConfig& config) {
  schema.Section("zero", "### Sharding");
  schema.Integer("zero.stage", config.zero.stage, {.low = 0, .high = 3},
                 "What is partitioned: 0 nothing, 1 optimizer state, 2 also gradients, 3 also "
                 "parameters.");
  schema.Integer("zero.prefetch", config.zero.prefetch, {.low = 0, .high = 1024},
                 "Units that are gathered ahead of their use.");
  schema.Size("zero.bucket", config.zero.bucket, {.low = kKiB},
              "Bytes that one exchange of gradients receives at most, but a chunk of each rank.");

  schema.Section(
      "offload",
      "### Offload\n\n"
      "`optimizer: host` is short for `optimizer: {tier: host}`, and `offload: auto` for "
      "`auto` everywhere: the fastest placement that fits.");
  std::vector<std::string> tiers;
  const auto add_policy = [&](const std::string& path, RunConfig::Policy& policy,
                              const char* help) {
    tiers.push_back(path + ".tier");
    schema.Choice<OffloadTier>(tiers.back(), policy.tier,
                               {{"device", OffloadTier::kDevice},
                                {"host", OffloadTier::kHost},
                                {"nvme", OffloadTier::kNvme},
                                {"auto", OffloadTier::kAuto}},
                               help);
    schema.Real(path + ".fraction", policy.fraction, {.low = 0, .high = 1},
                "How much of it; the rest stays on the device.");
    schema.Shorthand(path, {tiers.back()});
  };
  add_policy("offload.optimizer", config.offload.optimizer,
             "Where master weights and moments live, and so where they are updated.");
  add_policy("offload.gradients", config.offload.gradients,
             "Where a finished gradient waits for its update; of one rank, where sums are, too.");
  add_policy("offload.parameters", config.offload.parameters,
             "Where parameters live, when they are not in use.");
  add_policy("offload.activations", config.offload.activations,
             "Where the inputs of blocks wait for the backward.");
  schema.Shorthand("offload", tiers);

  schema.Section("memory", "### Memory, of each rank");
  schema.Size("memory.device", config.memory.device, {.low = kMiB}, "Capacity of the device.")
      .Default("what the machine has");
  schema.Size("memory.host", config.memory.host, {.low = kMiB}, "Capacity of the host.")
      .Default("what the machine has");
  schema
      .Text("memory.nvme.path", config.memory.nvme_path,
            "Folder of the NVMe tier's file, which has no name and goes with the run.")
      .Expected("the path of a folder");
  schema
      .Size("memory.nvme.capacity", config.memory.nvme_capacity, {.low = kMiB},
            "Capacity of the NVMe tier.")
      .Default("what is free there");
  schema.Size("memory.reserve", config.memory.reserve, {.low = 0},
              "What libraries may take beside the plan; checked before step 0.");
}

void AddOutput(Schema& schema, RunConfig& config) {
  schema.Section("evaluate", "### Evaluation");
  schema.Integer("evaluate.every", config.evaluate.every, {.low = 0},
                 "Steps between evaluations; 0 for none.");
  schema.Integer("evaluate.batches", config.evaluate.batches, {.low = 1, .high = kMost},
                 "Global batches of an evaluation, always the first of the file.");

  schema.Section("sample", "### A sample of text at the end");
  schema.Text("sample.prompt", config.sample.prompt, "What the text starts with.");
  schema.Integer("sample.length", config.sample.length, {.low = 0, .high = kMost},
                 "Bytes to write; 0 for no sample.");
  schema.Real("sample.temperature", config.sample.temperature, {.low = 0, .high = 100},
              "Below 1 prefers likely tokens; 0 always takes the likeliest.");

  schema.Section("checkpoint", "### Checkpoints");
  RunConfig::Checkpoint& checkpoint = config.checkpoint;
  schema.Text("checkpoint.folder", checkpoint.folder,
              "Where checkpoints go, the same for all ranks; without it none are written.");
  schema.Integer("checkpoint.every", checkpoint.every, {.low = 0, .high = kMost},
                 "Steps between checkpoints; 0 for one at the end, or when the run is stopped.");
  schema.Integer("checkpoint.keep.last", checkpoint.keep_last, {.low = 1, .high = kMost},
                 "How many of the newest are kept.");
  schema.Integer("checkpoint.keep.every", checkpoint.keep_every, {.low = 0, .high = kMost},
                 "Those of steps that are multiples of it are kept, too; 0 for none.");
}

Schema RunConfigSchema(RunConfig& config) {
  Schema schema;
  AddTop(schema, config);
  AddModel(schema, config.model);
  AddData(schema, config.data);
  AddBatch(schema, config.batch);
  AddOptimizer(schema, config.optimizer);
  AddSchedule(schema, config.schedule);
  AddSharding(schema, config);
  AddOutput(schema, config);
  AddDeepSpeedNames(schema);
  return schema;
}

}  // namespace

absl::StatusOr<RunConfig> LoadRunConfig(const std::string& path,
                                        const std::vector<std::string>& overrides, int64_t world) {
  TESSERA_CHECK(world >= 1 && world <= kMostRanks, absl::StrCat("world ", world));
  RunConfig config;
  const Schema schema = RunConfigSchema(config);
  ConfigReader reader(schema);
  if (!reader.ReadFile(path)) return reader.status();
  for (const std::string& setting : overrides) reader.Override(setting);
  reader.CheckRequired();
  CheckRunConfig(config, world, reader);
  TESSERA_RETURN_IF_ERROR(reader.status());
  return config;
}

std::vector<std::string> SharedSettings(RunConfig config) {
  std::vector<std::string> settings;
  const Schema schema = RunConfigSchema(config);
  for (const Key& key : schema.keys()) {
    const bool own = key.path == "threads" || key.path == "device" ||
                     absl::StartsWith(key.path, "data.") || absl::StartsWith(key.path, "memory.") ||
                     key.path == "checkpoint.folder";
    if (!own) settings.push_back(absl::StrCat(key.path, " = ", key.show()));
  }
  return settings;
}

std::vector<std::string> ResultSettings(RunConfig config) {
  std::vector<std::string> settings;
  const Schema schema = RunConfigSchema(config);
  for (const Key& key : schema.keys()) {
    bool decides = true;
    for (const absl::string_view other :
         {"threads", "device", "recompute", "resume", "data", "batch.accumulation", "zero",
          "offload", "memory", "evaluate", "sample", "checkpoint"}) {
      if (key.path == other || absl::StartsWith(key.path, absl::StrCat(other, "."))) {
        decides = false;
      }
    }
    if (decides) settings.push_back(absl::StrCat(key.path, " = ", key.show()));
  }
  return settings;
}

absl::StatusOr<RunConfig> ModelOfSettings(const std::vector<std::string>& settings) {
  RunConfig config;
  const Schema schema = RunConfigSchema(config);
  for (const std::string& setting : settings) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(setting, absl::MaxSplits(" = ", 1));
    if (parts.first != "precision" && !absl::StartsWith(parts.first, "model.")) continue;
    const auto key =
        std::find_if(schema.keys().begin(), schema.keys().end(),
                     [&](const Key& candidate) { return candidate.path == parts.first; });
    if (key == schema.keys().end() || !key->StoreText(parts.second)) {
      return absl::InvalidArgumentError(
          absl::StrCat(setting, " is no setting of this version of tessera"));
    }
  }
  return config;
}

std::string RunConfigReference() {
  RunConfig config;
  return RunConfigSchema(config).Reference();
}

}  // namespace tessera
