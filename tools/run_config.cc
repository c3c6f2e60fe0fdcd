#include "tools/run_config.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/config/config_reader.h"
#include "core/config/schema.h"
#include "core/data/byte_tokenizer.h"
#include "core/status.h"
#include "tools/deepspeed_names.h"

namespace tessera {
namespace {

constexpr auto kExcluded = RealRange::End::kExcluded;
constexpr int64_t kMost = int64_t{1} << 20;  // products of three stay below 2^63
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
  schema.Choice<Resume>("resume", config.resume, {{"none", Resume::kNone}}, "Where to go on from.")
      .Expected("none: this version writes no checkpoints");
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
              "Bytes that one collective moves at most.");

  schema.Section("offload", "### Offload");
  const auto add_tier = [&schema](const char* path, Tier& tier, const char* help) {
    schema.Choice<Tier>(path, tier, {{"device", Tier::kDevice}}, help)
        .Expected("device: this version does not offload");
  };
  add_tier("offload.optimizer", config.offload.optimizer, "Where the optimizer's state lives.");
  add_tier("offload.gradients", config.offload.gradients, "Where gradients live.");
  add_tier("offload.parameters", config.offload.parameters, "Where parameters live.");
  add_tier("offload.activations", config.offload.activations, "Where activations wait.");

  schema.Section("memory", "### Memory, of each rank");
  schema.Size("memory.device", config.memory.device, {.low = kMiB}, "Capacity of the device.")
      .Default("what the machine has");
  schema.Size("memory.host", config.memory.host, {.low = kMiB}, "Capacity of the host.")
      .Default("what the machine has");
  schema.Size("memory.reserve", config.memory.reserve, {.low = 0},
              "Kept free on the device for libraries.");
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
  schema.Text("checkpoint.folder", config.checkpoint.folder, "Where checkpoints go.");
  schema
      .Integer("checkpoint.every", config.checkpoint.every, {.low = 0, .high = 0},
               "Steps between checkpoints.")
      .Expected("0: this version writes no checkpoints");
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

// The multiples of `unit` beside `value`: "use 8 or 12".
std::string NearestMultiples(int64_t value, int64_t unit) {
  const int64_t below = value / unit * unit;
  return below == 0 ? absl::StrCat("use ", unit)
                    : absl::StrCat("use ", below, " or ", below + unit);
}

// From global and micro: accumulation.
void InferAccumulation(RunConfig::Batch& batch, int64_t world, ConfigReader& reader) {
  if (batch.global % batch.micro != 0) {
    reader.Complain("batch.global",
                    absl::StrCat("batch.global = ", batch.global,
                                 " is no multiple of batch.micro = ", batch.micro, "; ",
                                 NearestMultiples(batch.global, batch.micro)));
    return;
  }
  const int64_t micro_batches = batch.global / batch.micro;
  const std::string counted = absl::StrCat("batch.global / batch.micro = ", batch.global, " / ",
                                           batch.micro, " = ", micro_batches);
  if (micro_batches < world) {
    reader.Complain("batch.global",
                    absl::StrCat(counted, ", fewer micro-batches than the ", world,
                                 " ranks; raise batch.global, lower batch.micro, or start fewer "
                                 "ranks"));
    return;
  }
  if (micro_batches % world != 0) {
    reader.Complain(
        "batch.global",
        absl::StrCat(counted, " micro-batches, which do not divide among the ", world, " ranks; ",
                     NearestMultiples(batch.global, batch.micro * world), " for batch.global"));
    return;
  }
  batch.accumulation = micro_batches / world;
}

// From the other two: global or micro.
void InferFromAccumulation(RunConfig::Batch& batch, int64_t world, ConfigReader& reader) {
  const int64_t passes = batch.accumulation * world;
  if (batch.micro > 0) {
    batch.global = batch.micro * passes;
    if (batch.global <= kMost) return;
    reader.Complain("batch.accumulation",
                    absl::StrCat("batch.micro x batch.accumulation x ranks = ", batch.micro, " x ",
                                 batch.accumulation, " x ", world, " = ", batch.global,
                                 " sequences; expected at most ", kMost));
  } else if (batch.global % passes != 0) {
    reader.Complain("batch.global", absl::StrCat("batch.global = ", batch.global,
                                                 " is no multiple of batch.accumulation x ranks = ",
                                                 batch.accumulation, " x ", world, "; ",
                                                 NearestMultiples(batch.global, passes)));
  } else {
    batch.micro = batch.global / passes;
  }
}

void CloseBatch(RunConfig::Batch& batch, int64_t world, ConfigReader& reader) {
  if (!reader.Good({"batch.global", "batch.micro", "batch.accumulation"})) return;
  const int given = (batch.global > 0) + (batch.micro > 0) + (batch.accumulation > 0);
  if (given < 2) {
    reader.Complain("batch", absl::StrCat("batch has ", given,
                                          " of global, micro and accumulation; expected two"));
  } else if (given == 2 && batch.accumulation == 0) {
    InferAccumulation(batch, world, reader);
  } else if (given == 2) {
    InferFromAccumulation(batch, world, reader);
  } else if (batch.global != batch.micro * batch.accumulation * world) {
    reader.Complain("batch.global",
                    absl::StrCat("batch.global = ", batch.global,
                                 " is not batch.micro x batch.accumulation x ranks = ", batch.micro,
                                 " x ", batch.accumulation, " x ", world, " = ",
                                 batch.micro * batch.accumulation * world, "; remove one of them"));
  }
}

void CheckModel(const RunConfig::Model& model, ConfigReader& reader) {
  if (!reader.Good({"model.heads", "model.width"}) || model.width % model.heads == 0) return;
  reader.Complain("model.heads", absl::StrCat("model.heads = ", model.heads,
                                              " does not divide model.width = ", model.width,
                                              "; change one of them"));
}

void CheckSchedule(const RunConfig::Schedule& schedule, ConfigReader& reader) {
  if (!reader.Good(
          {"schedule.name", "schedule.steps", "schedule.warmup_steps", "schedule.decay_steps"})) {
    return;
  }
  if (schedule.warmup_steps > schedule.steps) {
    reader.Complain("schedule.warmup_steps",
                    absl::StrCat("schedule.warmup_steps = ", schedule.warmup_steps,
                                 " is more than schedule.steps = ", schedule.steps, "; lower it"));
    return;
  }
  const bool decays = schedule.name == ScheduleName::kWarmupStableDecay;
  if (decays && schedule.decay_steps == 0) {
    reader.Complain("schedule.decay_steps",
                    "schedule.decay_steps is missing; schedule.name = wsd needs it");
  } else if (!decays && schedule.decay_steps > 0) {
    reader.Complain("schedule.decay_steps",
                    "schedule.decay_steps belongs to schedule.name = wsd; remove it");
  } else if (schedule.decay_steps > schedule.steps - schedule.warmup_steps) {
    reader.Complain(
        "schedule.decay_steps",
        absl::StrCat("schedule.decay_steps = ", schedule.decay_steps, " is more than the ",
                     schedule.steps - schedule.warmup_steps, " steps after the warmup; lower it"));
  }
}

void CheckOutput(const RunConfig& config, ConfigReader& reader) {
  if (reader.Good({"data.train"}) && config.data.train.empty()) {
    reader.Complain("data.train", "data.train is \"\"; expected the path of a token file");
  }
  if (reader.Good({"evaluate.every", "data.validation"}) && config.evaluate.every > 0 &&
      config.data.validation.empty()) {
    reader.Complain("evaluate.every",
                    "evaluate.every needs data to evaluate on; give data.validation");
  }
  if (!reader.Good({"sample.length", "sample.prompt"}) || config.sample.length == 0) return;
  if (config.sample.prompt.empty()) {
    reader.Complain("sample.length",
                    "sample.length needs a text to go on from; give sample.prompt");
  } else if (reader.Good({"model.vocabulary"}) && config.model.vocabulary != kByteVocabulary) {
    reader.Complain("sample.length",
                    absl::StrCat("a sample needs tokens that are bytes, model.vocabulary = ",
                                 kByteVocabulary, "; remove it, or train on bytes"));
  }
}

}  // namespace

absl::StatusOr<RunConfig> LoadRunConfig(const std::string& path,
                                        const std::vector<std::string>& overrides, int64_t world) {
  TESSERA_CHECK(world >= 1 && world <= kMost, absl::StrCat("world ", world));
  RunConfig config;
  const Schema schema = RunConfigSchema(config);
  ConfigReader reader(schema);
  if (!reader.ReadFile(path)) return reader.status();
  for (const std::string& setting : overrides) reader.Override(setting);
  reader.CheckRequired();
  CheckModel(config.model, reader);
  CloseBatch(config.batch, world, reader);
  CheckSchedule(config.schedule, reader);
  CheckOutput(config, reader);
  TESSERA_RETURN_IF_ERROR(reader.status());
  return config;
}

std::string RunConfigReference() {
  RunConfig config;
  return RunConfigSchema(config).Reference();
}

}  // namespace tessera
