#include "tools/run_config.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "core/without_privileges.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr char kGood[] = R"(seed: 1
precision: bf16
model: {family: gpt2, layers: 2, heads: 4, width: 64, context: 32, vocabulary: 256, dropout: 0}
data: {train: train.bin, validation: validation.bin}
batch: {global: 32, micro: 4}
optimizer: {name: adamw, learning_rate: 1e-3, betas: [0.9, 0.95]}
schedule: {name: cosine, steps: 500, warmup_steps: 50}
zero: {stage: 3}
evaluate: {every: 100, batches: 10}
)";

// A folder that holds the configuration and nothing else.
std::string Folder() {
  static const std::string* const folder = [] {
    auto* path = new std::string(testing::TempDir() + "/run_config");
    std::filesystem::create_directory(*path);
    return path;
  }();
  return *folder;
}

absl::StatusOr<RunConfig> Load(const std::string& text,
                               const std::vector<std::string>& overrides = {}, int64_t world = 2) {
  const std::string path = Folder() + "/run.yaml";
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  auto config = LoadRunConfig(path, overrides, world);
  // Checking a configuration leaves nothing behind.
  const std::filesystem::directory_iterator begin(Folder());
  EXPECT_EQ(std::distance(begin, std::filesystem::directory_iterator()), 1);
  std::filesystem::remove(path);
  return config;
}

// What is wrong with it, the path shortened to F.
std::string Problems(const std::string& text, const std::vector<std::string>& overrides = {},
                     int64_t world = 2) {
  const auto config = Load(text, overrides, world);
  if (config.ok()) return "";
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return absl::StrReplaceAll(config.status().message(), {{Folder() + "/run.yaml", "F"}});
}

TEST(RunConfig, TakesWhatItIsGiven) {
  const auto config = Load(kGood, {"zero.bucket=64MiB", "schedule.name=wsd",
                                   "schedule.decay_steps=100", "memory.device=2GiB"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->precision, DType::kBFloat16);
  EXPECT_EQ(config->model.width, 64);
  EXPECT_EQ(config->data.train, "train.bin");
  EXPECT_EQ(config->optimizer.betas[1], 0.95);
  EXPECT_EQ(config->optimizer.learning_rate, 1e-3);
  EXPECT_EQ(config->schedule.name, ScheduleName::kWarmupStableDecay);
  EXPECT_EQ(config->schedule.decay_steps, 100);
  EXPECT_EQ(config->zero.bucket, int64_t{64} << 20);
  EXPECT_EQ(config->memory.device, int64_t{2} << 30);
  EXPECT_EQ(config->memory.reserve, int64_t{512} << 20);
}

// A tier alone, with its fraction, for all categories, and what the command line puts in
// its place.
TEST(RunConfig, TakesPoliciesShortAndLong) {
  const std::string folder = "memory.nvme.path=/tmp";
  const auto tiers = [](const RunConfig& config) {
    const RunConfig::Offload& o = config.offload;
    return std::vector<OffloadTier>{o.optimizer.tier, o.gradients.tier, o.parameters.tier,
                                    o.activations.tier};
  };
  constexpr OffloadTier kDevice = OffloadTier::kDevice;
  constexpr OffloadTier kHost = OffloadTier::kHost;
  constexpr OffloadTier kNvme = OffloadTier::kNvme;
  constexpr OffloadTier kAuto = OffloadTier::kAuto;
  const std::string some =
      std::string(kGood) +
      "offload: {optimizer: {tier: host, fraction: 0.3}, gradients: host, parameters: disk}\n";
  const auto from_file = Load(some, {"offload.parameters=device"});
  ASSERT_TRUE(from_file.ok()) << from_file.status();
  EXPECT_EQ(tiers(*from_file), (std::vector{kHost, kHost, kDevice, kDevice}));
  EXPECT_EQ(from_file->offload.optimizer.fraction, 0.3);

  const auto map = Load(kGood, {folder, "offload.optimizer={tier: nvme, fraction: 0.6}",
                                "offload.gradients.tier=host", "offload.gradients.fraction=0.1"});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(tiers(*map), (std::vector{kNvme, kHost, kDevice, kDevice}));
  EXPECT_EQ(map->offload.optimizer.fraction, 0.6);
  EXPECT_EQ(map->offload.gradients.fraction, 0.1);

  // What the file said of the same is gone, a mistake too.
  for (const char* setting : {"offload=auto", "offload.optimizer=auto"}) {
    const auto undone = Load(some, {"offload.parameters=device", setting});
    ASSERT_TRUE(undone.ok()) << undone.status();
    EXPECT_EQ(undone->offload.optimizer.tier, kAuto);
    EXPECT_EQ(undone->offload.optimizer.fraction, 1);
  }
  EXPECT_TRUE(Load(some, {"offload=host"}).ok());

  const auto all = Load(kGood, {folder, "offload=auto", "offload.activations=nvme"});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(tiers(*all), (std::vector{kAuto, kAuto, kAuto, kNvme}));
  EXPECT_EQ(Problems(kGood, {"offload=everywhere"}),
            "--set offload: offload is everywhere; expected one of device, host, nvme, auto, or a "
            "map of optimizer, gradients, parameters, activations");
  EXPECT_EQ(Problems(kGood, {"offload=[host]"}),
            "--set offload: offload is [host]; expected a map of optimizer, gradients, parameters, "
            "activations");
}

TEST(RunConfig, InfersTheThirdBatchSize) {
  struct Case {
    const char* batch;
    int64_t world, global, micro, accumulation;
  };
  for (const Case& c : std::vector<Case>{{"global: 24, micro: 4", 1, 24, 4, 6},
                                         {"global: 24, micro: 4", 3, 24, 4, 2},
                                         {"global: 4, micro: 4", 1, 4, 4, 1},
                                         {"global: 24, accumulation: 2", 3, 24, 4, 2},
                                         {"micro: 5, accumulation: 3", 2, 30, 5, 3},
                                         {"global: 30, micro: 5, accumulation: 3", 2, 30, 5, 3}}) {
    SCOPED_TRACE(c.batch);
    const auto config =
        Load(absl::StrReplaceAll(kGood, {{"global: 32, micro: 4", c.batch}}), {}, c.world);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->batch.global, c.global);
    EXPECT_EQ(config->batch.micro, c.micro);
    EXPECT_EQ(config->batch.accumulation, c.accumulation);
  }
}

TEST(RunConfig, NamesEveryProblemOfTheFile) {
  struct Case {
    const char* name;
    const char* from;  // in kGood
    const char* to;
    const char* problems;
  };
  const std::vector<Case> table = {
      {"unknown key", "seed: 1", "sede: 1", "F:1:1: sede is not a key; did you mean seed?"},
      {"unknown key of a section", "layers: 2", "layer: 2",
       "F:3:23: model.layer is not a key; did you mean model.layers?"},
      {"key in the wrong section", "seed: 1", "learning_rate: 1",
       "F:1:1: learning_rate is not a key; did you mean optimizer.learning_rate?"},
      {"unknown section", "zero: {stage: 3}", "zeros: {stage: 3}",
       "F:8:1: zeros is not a key; did you mean zero?"},
      {"nothing like it", "seed: 1", "colour: 1",
       "F:1:1: colour is not a key; expected one of seed, precision, device, threads, recompute, "
       "resume, model, data, batch, optimizer, schedule, zero, offload, memory, evaluate, sample, "
       "checkpoint"},
      {"case matters", "seed: 1", "Seed: 1", "F:1:1: Seed is not a key; did you mean seed?"},
      {"hyphens", "warmup_steps: 50", "warmup-steps: 50",
       "F:7:38: schedule.warmup-steps is not a key; did you mean schedule.warmup_steps?"},
      {"DeepSpeed section", "zero: {stage: 3}",
       "zero_optimization: {stage: 3, overlap_comm: true, offload_param: {device: cpu}}",
       "F:8:1: zero_optimization is DeepSpeed's name; use zero.stage, zero.prefetch and "
       "zero.bucket\n"
       "F:8:21: zero_optimization.stage is DeepSpeed's name; use zero.stage\n"
       "F:8:31: zero_optimization.overlap_comm is DeepSpeed's name; Tessera needs no such setting: "
       "remove it\n"
       "F:8:51: zero_optimization.offload_param is DeepSpeed's name; use offload.parameters"},
      {"DeepSpeed offload", "seed: 1", "activation_checkpointing: {cpu_checkpointing: true}",
       "F:1:1: activation_checkpointing is DeepSpeed's name; use recompute: block\n"
       "F:1:28: activation_checkpointing.cpu_checkpointing is DeepSpeed's name; use "
       "offload.activations"},
      {"DeepSpeed batch", "batch: {global: 32, micro: 4}",
       "train_batch_size: 32\ntrain_micro_batch_size_per_gpu: 4\ngradient_accumulation_steps: 8",
       "F:5:1: train_batch_size is DeepSpeed's name; use batch.global (sequences)\n"
       "F:6:1: train_micro_batch_size_per_gpu is DeepSpeed's name; use batch.micro (sequences)\n"
       "F:7:1: gradient_accumulation_steps is DeepSpeed's name; use batch.accumulation\n"
       "F: batch has 0 of global, micro and accumulation; expected two"},
      {"DeepSpeed clipping", "seed: 1", "gradient_clipping: 1.0",
       "F:1:1: gradient_clipping is DeepSpeed's name; use optimizer.clip_norm"},
      {"DeepSpeed bf16", "precision: bf16", "bf16: {enabled: true}",
       "F:2:1: bf16 is DeepSpeed's name; use precision: bf16"},
      {"DeepSpeed fp16", "precision: bf16", "fp16: {enabled: true, loss_scale: 0}",
       "F:2:1: fp16 is DeepSpeed's name; use precision: bf16, which needs no loss scale\n"
       "F:2:23: fp16.loss_scale is DeepSpeed's name; Tessera needs no such setting: remove it"},
      {"DeepSpeed name inside zero", "stage: 3", "stage3_prefetch_bucket_size: 5e8",
       "F:8:8: zero.stage3_prefetch_bucket_size is DeepSpeed's name; use zero.prefetch (units "
       "gathered ahead, not elements)"},
      {"DeepSpeed bucket", "stage: 3", "reduce_bucket_size: 5e8",
       "F:8:8: zero.reduce_bucket_size is DeepSpeed's name; use zero.bucket (bytes with a unit, "
       "not elements)"},
      {"DeepSpeed tile", "stage: 3", "sub_group_size: 1e9",
       "F:8:8: zero.sub_group_size is DeepSpeed's name; Tessera needs no such setting: remove it"},
      {"DeepSpeed quantised weights", "stage: 3", "zero_quantized_weights: true",
       "F:8:8: zero.zero_quantized_weights is DeepSpeed's name; this version has no such feature: "
       "remove it"},
      {"DeepSpeed optimizer", "name: adamw, learning_rate: 1e-3", "type: AdamW, params: {lr: 1e-3}",
       "F:6:13: optimizer.type is DeepSpeed's name; use optimizer.name\n"
       "F:6:26: optimizer.params is DeepSpeed's name; use optimizer.learning_rate, betas, epsilon "
       "and weight_decay\n"
       "F:6:35: optimizer.params.lr is DeepSpeed's name; use optimizer.learning_rate\n"
       "F:6:1: optimizer.learning_rate is missing; expected a number above 0"},
      {"auto", "micro: 4", "micro: auto",
       "F:5:21: batch.micro is auto; expected an integer from 1 to 1048576"},
      {"text for an integer", "layers: 2", "layers: two",
       "F:3:23: model.layers is two; expected an integer from 1 to 10000"},
      {"quoted number", "layers: 2", "layers: \"2\"",
       "F:3:23: model.layers is \"2\"; expected an integer from 1 to 10000"},
      {"fraction for an integer", "layers: 2", "layers: 2.0",
       "F:3:23: model.layers is 2.0; expected an integer from 1 to 10000"},
      {"exponent for an integer", "steps: 500", "steps: 5e2",
       "F:7:26: schedule.steps is 5e2; expected an integer from 1 to 2147483648"},
      {"hexadecimal", "layers: 2", "layers: 0x2",
       "F:3:23: model.layers is 0x2; expected an integer from 1 to 10000"},
      {"underscore", "steps: 500", "steps: 1_000",
       "F:7:26: schedule.steps is 1_000; expected an integer from 1 to 2147483648"},
      {"unit on a count", "steps: 500", "steps: 500MiB",
       "F:7:26: schedule.steps is 500MiB; expected an integer from 1 to 2147483648"},
      {"list for an integer", "layers: 2", "layers: [2]",
       "F:3:23: model.layers is [2]; expected an integer from 1 to 10000"},
      {"map for an integer", "layers: 2", "layers: {count: 2}",
       "F:3:23: model.layers is a map; expected an integer from 1 to 10000"},
      {"no value", "layers: 2",
       "layers:", "F:3:23: model.layers is empty; expected an integer from 1 to 10000"},
      {"null", "layers: 2", "layers: ~",
       "F:3:23: model.layers is empty; expected an integer from 1 to 10000"},
      {"zero layers", "layers: 2", "layers: 0",
       "F:3:23: model.layers is 0; expected an integer from 1 to 10000"},
      {"negative heads", "heads: 4", "heads: -4",
       "F:3:34: model.heads is -4; expected an integer from 1 to 65536"},
      {"integer beyond 64 bits", "seed: 1", "seed: 9223372036854775808",
       "F:1:1: seed is 9223372036854775808; expected an integer of at least 0"},
      {"negative seed", "seed: 1", "seed: -1",
       "F:1:1: seed is -1; expected an integer of at least 0"},
      {"vocabulary of one", "vocabulary: 256", "vocabulary: 1",
       "F:3:68: model.vocabulary is 1; expected an integer from 2 to 16777216"},
      {"too many layers", "layers: 2", "layers: 10001",
       "F:3:23: model.layers is 10001; expected an integer from 1 to 10000"},
      {"dropout of one", "dropout: 0", "dropout: 1",
       "F:3:85: model.dropout is 1; expected a number of at least 0 and below 1"},
      {"negative dropout", "dropout: 0", "dropout: -0.1",
       "F:3:85: model.dropout is -0.1; expected a number of at least 0 and below 1"},
      {"NaN", "learning_rate: 1e-3", "learning_rate: .nan",
       "F:6:26: optimizer.learning_rate is .nan; expected a number above 0"},
      {"nan as C writes it", "learning_rate: 1e-3", "learning_rate: nan",
       "F:6:26: optimizer.learning_rate is nan; expected a number above 0"},
      {"infinity", "learning_rate: 1e-3", "learning_rate: .inf",
       "F:6:26: optimizer.learning_rate is .inf; expected a number above 0"},
      {"real beyond a double", "learning_rate: 1e-3", "learning_rate: 1e999",
       "F:6:26: optimizer.learning_rate is 1e999; expected a number above 0"},
      {"zero learning rate", "learning_rate: 1e-3", "learning_rate: 0",
       "F:6:26: optimizer.learning_rate is 0; expected a number above 0"},
      {"yes for a number", "learning_rate: 1e-3", "learning_rate: yes",
       "F:6:26: optimizer.learning_rate is yes; expected a number above 0"},
      {"beta of one", "betas: [0.9, 0.95]", "betas: [0.9, 1]",
       "F:6:47: optimizer.betas is [0.9, 1]; expected a list of 2 numbers, each at least 0 and "
       "below 1"},
      {"one beta", "betas: [0.9, 0.95]", "betas: [0.9]",
       "F:6:47: optimizer.betas is [0.9]; expected a list of 2 numbers, each at least 0 and below "
       "1"},
      {"three betas", "betas: [0.9, 0.95]", "betas: [0.9, 0.95, 0.99]",
       "F:6:47: optimizer.betas is [0.9, 0.95, 0.99]; expected a list of 2 numbers, each at least "
       "0 and below 1"},
      {"beta that is no list", "betas: [0.9, 0.95]", "betas: 0.9",
       "F:6:47: optimizer.betas is 0.9; expected a list of 2 numbers, each at least 0 and below 1"},
      {"NaN beta", "betas: [0.9, 0.95]", "betas: [0.9, .nan]",
       "F:6:47: optimizer.betas is [0.9, .nan]; expected a list of 2 numbers, each at least 0 and "
       "below 1"},
      {"negative clip norm", "betas: [0.9, 0.95]", "clip_norm: -1",
       "F:6:47: optimizer.clip_norm is -1; expected a number of at least 0"},
      {"zero epsilon", "betas: [0.9, 0.95]", "epsilon: 0",
       "F:6:47: optimizer.epsilon is 0; expected a number above 0"},
      {"negative weight decay", "betas: [0.9, 0.95]", "weight_decay: -0.1",
       "F:6:47: optimizer.weight_decay is -0.1; expected a number of at least 0"},
      {"unknown precision", "precision: bf16", "precision: fp16",
       "F:2:1: precision is fp16; expected one of fp32, bf16"},
      {"unknown optimizer", "name: adamw", "name: adam",
       "F:6:13: optimizer.name is adam; expected adamw"},
      {"unknown schedule", "name: cosine", "name: cosin",
       "F:7:12: schedule.name is cosin; expected one of constant, cosine, linear, wsd"},
      {"unknown family", "family: gpt2", "family: llama",
       "F:3:9: model.family is llama; expected gpt2"},
      {"unknown device", "seed: 1", "device: tpu",
       "F:1:1: device is tpu; expected one of auto, cpu"},
      {"stage out of range", "stage: 3", "stage: 4",
       "F:8:8: zero.stage is 4; expected an integer from 0 to 3"},
      {"size without sense", "stage: 3", "bucket: big",
       "F:8:8: zero.bucket is big; expected a size such as 64MiB or 1GB, of at least 1KiB"},
      {"size with a fraction", "stage: 3", "bucket: 1.5GiB",
       "F:8:8: zero.bucket is 1.5GiB; expected a size such as 64MiB or 1GB, of at least 1KiB"},
      {"size in an unknown unit", "stage: 3", "bucket: 64mb",
       "F:8:8: zero.bucket is 64mb; expected a size such as 64MiB or 1GB, of at least 1KiB"},
      {"negative size", "stage: 3", "bucket: -64MiB",
       "F:8:8: zero.bucket is -64MiB; expected a size such as 64MiB or 1GB, of at least 1KiB"},
      {"size beyond 64 bits", "stage: 3", "bucket: 9223372036854775807KiB",
       "F:8:8: zero.bucket is 9223372036854775807KiB; expected a size such as 64MiB or 1GB, of at "
       "least 1KiB"},
      {"tiny bucket", "stage: 3", "bucket: 0",
       "F:8:8: zero.bucket is 0; expected a size such as 64MiB or 1GB, of at least 1KiB"},
      {"memory that overflows", "seed: 1", "memory: {device: 99999999TiB}",
       "F:1:10: memory.device is 99999999TiB; expected a size such as 64MiB or 1GB, of at least "
       "1MiB"},
      {"a tier that there is not", "seed: 1", "offload: {optimizer: disk}",
       "F:1:11: offload.optimizer is disk; expected one of device, host, nvme, auto, or a map of "
       "tier, fraction"},
      {"offload to NVMe without a folder", "seed: 1", "offload: {parameters: nvme}",
       "F:1:11: offload.parameters on nvme needs a folder for its file; give memory.nvme.path"},
      {"a fraction of the device", "seed: 1", "offload: {gradients: {fraction: 0.5}}",
       "F:1:23: offload.gradients.fraction belongs to tier host or nvme; give "
       "offload.gradients.tier, or remove it"},
      {"more than all", "seed: 1", "offload: {optimizer: {tier: host, fraction: 1.5}}",
       "F:1:35: offload.optimizer.fraction is 1.5; expected a number of at least 0 and at most 1"},
      {"a key of a policy", "seed: 1", "offload: {optimizer: {tier: host, fracton: 0.5}}",
       "F:1:35: offload.optimizer.fracton is not a key; did you mean offload.optimizer.fraction?"},
      {"a capacity of no folder", "seed: 1", "memory: {nvme: {capacity: 1GiB}}",
       "F:1:17: memory.nvme.capacity is of a folder; give memory.nvme.path"},
      {"checkpoints", "seed: 1", "checkpoint: {every: 200, keep: {last: 2}}",
       "F:1:14: checkpoint.every needs a place to write to; give checkpoint.folder\n"
       "F:1:33: checkpoint.keep.last needs a place to write to; give checkpoint.folder"},
      {"keeping none", "seed: 1", "checkpoint: {folder: runs/a, keep: {last: 0}}",
       "F:1:37: checkpoint.keep.last is 0; expected an integer from 1 to 1048576"},
      {"resume", "seed: 1", "resume: auto",
       "F:1:1: resume = auto needs a place to look at; give checkpoint.folder"},
      {"no resume", "seed: 1", "resume: ''",
       "F:1:1: resume is empty; expected none, auto, or a checkpoint's folder"},
      {"section that is a number", "zero: {stage: 3}", "zero: 3",
       "F:8:1: zero is 3; expected a map of stage, prefetch, bucket"},
      {"section that is a list", "zero: {stage: 3}", "zero: [3]",
       "F:8:1: zero is [3]; expected a map of stage, prefetch, bucket"},
      {"section without a value", "zero: {stage: 3}",
       "zero:", "F:8:1: zero is empty; expected a map of stage, prefetch, bucket"},
      {"key given twice", "seed: 1", "seed: 1\nseed: 2",
       "F:2:1: seed is given twice, first at F:1:1; remove one"},
      {"section given twice", "zero: {stage: 3}", "zero: {stage: 3}\nzero: {prefetch: 1}",
       "F:9:1: zero is given twice, first at F:8:1; remove one"},
      {"key that is a list", "seed: 1", "? [a, b]\n: 1", "F:1:3: a key is [a, b]; expected a name"},
      {"merge key", "zero: {stage: 3}", "zero: {<<: {stage: 3}}",
       "F:8:8: zero.<< is not a key; expected one of stage, prefetch, bucket"},
      {"heads that do not divide", "heads: 4", "heads: 5",
       "F:3:34: model.heads = 5 does not divide model.width = 64; change one of them"},
      {"warmup longer than the run", "warmup_steps: 50", "warmup_steps: 501",
       "F:7:38: schedule.warmup_steps = 501 is more than schedule.steps = 500; lower it"},
      {"wsd without its decay", "name: cosine", "name: wsd",
       "F:7:1: schedule.decay_steps is missing; schedule.name = wsd needs it"},
      {"decay without wsd", "warmup_steps: 50", "decay_steps: 50",
       "F:7:38: schedule.decay_steps belongs to schedule.name = wsd; remove it"},
      {"decay longer than what is left", "name: cosine, steps: 500",
       "name: wsd, decay_steps: 451, steps: 500",
       "F:7:23: schedule.decay_steps = 451 is more than the 450 steps after the warmup; lower it"},
      {"only one batch size", "global: 32, micro: 4", "global: 32",
       "F:5:1: batch has 1 of global, micro and accumulation; expected two"},
      {"no batch size", "batch: {global: 32, micro: 4}", "batch: {sum_group: 2}",
       "F:5:1: batch has 0 of global, micro and accumulation; expected two"},
      {"no batch at all", "batch: {global: 32, micro: 4}", "",
       "F: batch has 0 of global, micro and accumulation; expected two"},
      {"global no multiple of micro", "global: 32, micro: 4", "global: 30, micro: 4",
       "F:5:9: batch.global = 30 is no multiple of batch.micro = 4; use 28 or 32"},
      {"micro above global", "global: 32, micro: 4", "global: 3, micro: 4",
       "F:5:9: batch.global = 3 is no multiple of batch.micro = 4; use 4"},
      {"fewer micro-batches than ranks", "global: 32, micro: 4", "global: 4, micro: 4",
       "F:5:9: batch.global / batch.micro = 4 / 4 = 1, fewer micro-batches than the 2 ranks; raise "
       "batch.global, lower batch.micro, or start fewer ranks"},
      {"micro-batches that do not divide", "global: 32, micro: 4", "global: 12, micro: 4",
       "F:5:9: batch.global / batch.micro = 12 / 4 = 3 micro-batches, which do not divide among "
       "the 2 ranks; use 8 or 16 for batch.global"},
      {"global no multiple of accumulation", "global: 32, micro: 4", "global: 30, accumulation: 4",
       "F:5:9: batch.global = 30 is no multiple of batch.accumulation x ranks = 4 x 2; use 24 or "
       "32"},
      {"accumulation above global", "global: 32, micro: 4", "global: 3, accumulation: 4",
       "F:5:9: batch.global = 3 is no multiple of batch.accumulation x ranks = 4 x 2; use 8"},
      {"three that disagree", "global: 32, micro: 4", "global: 32, micro: 4, accumulation: 3",
       "F:5:9: batch.global = 32 is not batch.micro x batch.accumulation x ranks = 4 x 3 x 2 = 24; "
       "remove one of them"},
      {"more micro-steps than a plan can hold", "global: 32, micro: 4",
       "micro: 1, accumulation: 4097",
       "F:5:1: batch.accumulation is 4097, more than 4096; raise batch.micro or the number of "
       "ranks"},
      {"batch that overflows", "global: 32, micro: 4", "micro: 1048576, accumulation: 1048576",
       "F:5:25: batch.micro x batch.accumulation x ranks = 1048576 x 1048576 x 2 = 2199023255552 "
       "sequences; expected at most 1048576"},
      {"zero micro", "micro: 4", "micro: 0",
       "F:5:21: batch.micro is 0; expected an integer from 1 to 1048576"},
      {"zero sum group", "micro: 4", "micro: 4, sum_group: 0",
       "F:5:31: batch.sum_group is 0; expected an integer from 1 to 1048576"},
      {"no training data", "train: train.bin, ", "",
       "F:4:1: data.train is missing; expected the path of a token file"},
      {"empty path", "train: train.bin", "train: \"\"",
       "F:4:8: data.train is \"\"; expected the path of a token file"},
      {"evaluation without data", ", validation: validation.bin", "",
       "F:9:12: evaluate.every needs data to evaluate on; give data.validation"},
      {"evaluation of nothing", "batches: 10", "batches: 0",
       "F:9:24: evaluate.batches is 0; expected an integer from 1 to 1048576"},
      {"sample without a prompt", "seed: 1", "sample: {length: 10}",
       "F:1:10: sample.length needs a text to go on from; give sample.prompt"},
      {"sample of other tokens", "vocabulary: 256, dropout: 0}",
       "vocabulary: 50257}\nsample: {prompt: a, length: 10}",
       "F:4:21: a sample needs tokens that are bytes, model.vocabulary = 256; remove it, or train "
       "on bytes"},
      {"negative temperature", "seed: 1", "sample: {temperature: -1}",
       "F:1:10: sample.temperature is -1; expected a number of at least 0 and at most 100"},
      {"several at once", "layers: 2, heads: 4", "layer: 2, heads: 5",
       "F:3:23: model.layer is not a key; did you mean model.layers?\n"
       "F:3:33: model.heads = 5 does not divide model.width = 64; change one of them"},
  };
  for (const Case& c : table) {
    SCOPED_TRACE(c.name);
    ASSERT_NE(std::string(kGood).find(c.from), std::string::npos);
    EXPECT_EQ(Problems(absl::StrReplaceAll(kGood, {{c.from, c.to}})), c.problems);
  }
}

TEST(RunConfig, ChecksOverridesAlike) {
  struct Case {
    const char* name;
    const char* setting;
    const char* problems;
  };
  const std::vector<Case> table = {
      {"unknown key", "model.layer=3",
       "--set model.layer: model.layer is not a key; did you mean model.layers?"},
      {"DeepSpeed name", "gradient_clipping=1",
       "--set gradient_clipping: gradient_clipping is DeepSpeed's name; use optimizer.clip_norm"},
      {"wrong type", "model.layers=many",
       "--set model.layers: model.layers is many; expected an integer from 1 to 10000"},
      {"no value", "model.layers=",
       "--set model.layers: model.layers is empty; expected an integer from 1 to 10000"},
      {"no equals sign", "model.layers", "--set model.layers: expected --set key.path=value"},
      {"section", "model={layers: 3}",
       "--set model: model has keys of its own; set one of them: family, layers, heads, width, "
       "context, vocabulary, dropout"},
      {"out of range", "zero.stage=5",
       "--set zero.stage: zero.stage is 5; expected an integer from 0 to 3"},
      {"not YAML", "optimizer.betas=[0.9, 0.95",
       "--set optimizer.betas: not YAML: end of sequence flow not found"},
      {"relation", "model.heads=7",
       "--set model.heads: model.heads = 7 does not divide model.width = 64; change one of them"},
      {"nothing at all", "=3", "--set =3: expected --set key.path=value"},
  };
  for (const Case& c : table) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(Problems(kGood, {c.setting}), c.problems);
  }
}

TEST(RunConfig, RefusesWhatIsNoYamlMap) {
  struct Case {
    const char* name;
    const char* text;
    const char* problems;
  };
  const std::vector<Case> table = {
      {"tab", "seed: 1\n\tprecision: bf16\n",
       "F:2:1: not YAML: illegal tab when looking for indentation; check colons, brackets, quotes "
       "and indentation"},
      {"open bracket", "model: {layers: 2\nseed: 1\n",
       "F:2:5: not YAML: end of map flow not found; check colons, brackets, quotes and "
       "indentation"},
      {"bad indentation", "model:\n  layers: 2\n heads: 4\n",
       "F:3:2: not YAML: end of map not found; check colons, brackets, quotes and indentation"},
      {"unknown alias", "seed: *one\n",
       "F:1:7: not YAML: the referenced anchor is not defined; check colons, brackets, quotes and "
       "indentation"},
      {"no colon", "seed 1\nprecision: bf16\n",
       "F:2:10: not YAML: illegal map value; check colons, brackets, quotes and indentation"},
      {"open quote", "seed: \"1\n",
       "F:1:1: seed is \"1 \"; expected an integer of at least 0\n"
       "F: model.layers is missing; expected an integer from 1 to 10000\n"
       "F: model.heads is missing; expected an integer from 1 to 65536\n"
       "F: model.width is missing; expected an integer from 1 to 1048576\n"
       "F: model.context is missing; expected an integer from 1 to 1048576\n"
       "F: data.train is missing; expected the path of a token file\n"
       "F: optimizer.learning_rate is missing; expected a number above 0\n"
       "F: schedule.steps is missing; expected an integer from 1 to 2147483648\n"
       "F: batch has 0 of global, micro and accumulation; expected two"},
      {"list", "- seed: 1\n",
       "F: the whole file is a list; expected a YAML map of settings, such as `seed: 1`"},
      {"scalar", "tessera\n",
       "F: the whole file is tessera; expected a YAML map of settings, such as `seed: 1`"},
      {"comment alone", "# nothing yet\n", "F: no settings; expected a YAML map of settings"},
      {"null", "~\n", "F: no settings; expected a YAML map of settings"},
      {"two documents", "seed: 1\n---\nseed: 2\n",
       "F: 2 YAML documents; expected one: remove `---`"},
      {"empty", "", "F: empty; expected a YAML map of settings"},
  };
  for (const Case& c : table) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(Problems(c.text), c.problems);
  }
  EXPECT_EQ(Problems(std::string(100'000, '[')),
            "F:1:1: not YAML: bad file; check colons, brackets, quotes and indentation");
  EXPECT_EQ(Problems(std::string((1 << 20) + 1, '#')),
            "F: 1048577 bytes; a configuration has at most 1048576");
  EXPECT_EQ(Problems(std::string("\0\x01\xff", 3)),
            "F: the whole file is \\x01; expected a YAML map of settings, such as `seed: 1`");
}

TEST(RunConfig, RefusesWhatCannotBeRead) {
  const std::string missing = testing::TempDir() + "/missing.yaml";
  EXPECT_EQ(LoadRunConfig(missing, {}, 1).status().message(),
            missing + ": cannot open the configuration: No such file or directory");
  EXPECT_EQ(LoadRunConfig(testing::TempDir(), {}, 1).status().message(),
            testing::TempDir() + ": not a regular file; expected a YAML file");

  const std::string secret = testing::TempDir() + "/secret.yaml";
  std::ofstream(secret) << kGood;
  ASSERT_EQ(chmod(secret.c_str(), 0), 0);
  const WithoutPrivileges like_anybody;
  const auto config = LoadRunConfig(secret, {}, 1);
  EXPECT_EQ(config.status().message(),
            secret + ": cannot open the configuration: Permission denied");
}

TEST(RunConfig, HasAReferenceOfEveryKey) {
  const std::string reference = RunConfigReference();
  for (const char* row :
       {"| `seed` | an integer of at least 0 | 1 |", "| `model.layers` | ", "| `batch.micro` | ",
        "| `optimizer.epsilon` | a number above 0 | 1e-08 |",
        "| `schedule.name` | one of constant, cosine, linear, wsd | cosine |",
        "| `zero.bucket` | a size such as 64MiB or 1GB, of at least 1KiB | 32MiB |",
        "| `sample.prompt` | text | none |"}) {
    EXPECT_NE(reference.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace tessera
