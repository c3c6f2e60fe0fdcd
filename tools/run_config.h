#ifndef TESSERA_TOOLS_RUN_CONFIG_H_
#define TESSERA_TOOLS_RUN_CONFIG_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/dtype.h"
#include "offload/tier.h"

namespace tessera {

enum class DeviceKind { kAuto, kCpu };
enum class ModelFamily { kGpt2 };
enum class OptimizerName { kAdamW };
enum class ScheduleName { kConstant, kCosine, kLinear, kWarmupStableDecay };
enum class Recompute { kNone, kBlock };
enum class OffloadTier { kDevice, kHost, kNvme, kAuto };

// A training run, as its YAML file describes it. The meaning, range and default
// of each member is in RunConfigReference; sizes are bytes, batch sizes sequences.
struct RunConfig {
  struct Model {
    ModelFamily family = ModelFamily::kGpt2;
    int64_t layers = 0;
    int64_t heads = 0;
    int64_t width = 0;
    int64_t context = 0;
    int64_t vocabulary = 256;
    double dropout = 0;
  };
  struct Data {
    std::string train;
    std::string validation;
  };
  // Consistent once loaded: global = micro * accumulation * world.
  struct Batch {
    int64_t global = 0;
    int64_t micro = 0;
    int64_t accumulation = 0;
    int64_t sum_group = 1;
  };
  struct Optimizer {
    OptimizerName name = OptimizerName::kAdamW;
    double learning_rate = 0;
    std::array<double, 2> betas = {0.9, 0.95};
    double epsilon = 1e-8;
    double weight_decay = 0.1;
    double clip_norm = 1;  // 0: no clipping
  };
  struct Schedule {
    ScheduleName name = ScheduleName::kCosine;
    int64_t steps = 0;
    int64_t warmup_steps = 0;
    int64_t decay_steps = 0;  // above 0 for warmup-stable-decay alone
    double final_fraction = 0.1;
  };
  struct Zero {
    int64_t stage = 0;
    int64_t prefetch = 1;
    int64_t bucket = int64_t{32} << 20;
  };
  struct Policy {
    OffloadTier tier = OffloadTier::kDevice;
    double fraction = 1;
  };
  struct Offload {
    Policy optimizer, gradients, parameters, activations;
  };
  struct Memory {
    int64_t device = 0;  // 0: what the machine has
    int64_t host = 0;
    std::string nvme_path;
    int64_t nvme_capacity = 0;  // 0: what is free there
    int64_t reserve = int64_t{512} << 20;
  };
  struct Checkpoint {
    std::string folder;  // empty: none are written
    int64_t every = 0;   // 0: only at the end
    int64_t keep_last = 3;
    int64_t keep_every = 0;  // 0: only the last ones
  };
  struct Evaluate {
    int64_t every = 0;  // 0: never
    int64_t batches = 10;
  };
  struct Sample {
    std::string prompt;
    int64_t length = 0;  // 0: no sample
    double temperature = 1;
  };

  int64_t seed = 1;
  DType precision = DType::kFloat32;
  DeviceKind device = DeviceKind::kAuto;
  int64_t threads = 0;  // 0: the machine's cores, divided among its ranks
  Model model;
  Data data;
  Batch batch;
  Optimizer optimizer;
  Schedule schedule;
  Zero zero;
  Recompute recompute = Recompute::kNone;
  Offload offload;
  Memory memory;
  Checkpoint checkpoint;
  std::string resume = "none";  // kResumeNone, kResumeAuto, or a checkpoint's folder
  Evaluate evaluate;
  Sample sample;
};

inline constexpr char kResumeNone[] = "none";
inline constexpr char kResumeAuto[] = "auto";

inline constexpr int kMostRanks = 1 << 20;

// Reads and checks the whole of a run's file, with "key.path=value" overrides,
// for a world of `world` ranks, at most kMostRanks; infers the batch size that was left out.
// Touches no file but `path`. InvalidArgument has a line for each problem: "PATH:LINE:COLUMN: what
// is wrong; what to do".
absl::StatusOr<RunConfig> LoadRunConfig(const std::string& path,
                                        const std::vector<std::string>& overrides, int64_t world);

// The settings that all ranks of a run must share, "key = value" each, in a fixed
// order: all but where a rank's files are, and what tells of its own machine.
std::vector<std::string> SharedSettings(RunConfig config);

// The settings that decide a run's results, "key = value" each, in a fixed order; where
// its data are does not.
std::vector<std::string> ResultSettings(RunConfig config);

// A configuration with the model and the precision of such settings, and defaults in all
// else. InvalidArgument for a setting of the model that this version does not know.
absl::StatusOr<RunConfig> ModelOfSettings(const std::vector<std::string>& settings);

// The table of all keys, in Markdown.
std::string RunConfigReference();

}  // namespace tessera

#endif  // TESSERA_TOOLS_RUN_CONFIG_H_
