#include "tools/run_config_checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/data/byte_tokenizer.h"

namespace tessera {
namespace {

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
    if (batch.global <= kMostSequences) return;
    reader.Complain("batch.accumulation",
                    absl::StrCat("batch.micro x batch.accumulation x ranks = ", batch.micro, " x ",
                                 batch.accumulation, " x ", world, " = ", batch.global,
                                 " sequences; expected at most ", kMostSequences));
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
  // A plan has every micro-step's instructions: beyond this, planning takes minutes.
  constexpr int64_t kMostMicroSteps = 4096;
  if (reader.Good({"batch.accumulation"}) && batch.accumulation > kMostMicroSteps) {
    reader.Complain("batch",
                    absl::StrCat("batch.accumulation is ", batch.accumulation, ", more than ",
                                 kMostMicroSteps, "; raise batch.micro or the number of ranks"));
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

void CheckOffload(const RunConfig& config, ConfigReader& reader) {
  const auto check = [&](const std::string& path, const RunConfig::Policy& policy) {
    const std::string tier = path + ".tier";
    const std::string fraction = path + ".fraction";
    if (!reader.Good({tier, fraction, path, "offload"})) return;
    const bool elsewhere = policy.tier == OffloadTier::kHost || policy.tier == OffloadTier::kNvme;
    if (reader.Given(fraction) && !elsewhere) {
      reader.Complain(fraction, absl::StrCat(fraction, " belongs to tier host or nvme; give ", tier,
                                             ", or remove it"));
    }
    if (policy.tier == OffloadTier::kNvme && config.memory.nvme_path.empty()) {
      reader.Complain(tier, absl::StrCat(path, " on nvme needs a folder for its file; give ",
                                         "memory.nvme.path"));
    }
  };
  check("offload.optimizer", config.offload.optimizer);
  check("offload.gradients", config.offload.gradients);
  check("offload.parameters", config.offload.parameters);
  check("offload.activations", config.offload.activations);
  if (reader.Given("memory.nvme.capacity") && config.memory.nvme_path.empty()) {
    reader.Complain("memory.nvme.capacity",
                    "memory.nvme.capacity is of a folder; give memory.nvme.path");
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

void CheckCheckpoints(const RunConfig& config, ConfigReader& reader) {
  if (reader.Good({"resume"}) && config.resume.empty()) {
    reader.Complain("resume", "resume is empty; expected none, auto, or a checkpoint's folder");
  }
  if (!config.checkpoint.folder.empty()) return;
  for (const char* key : {"checkpoint.every", "checkpoint.keep.last", "checkpoint.keep.every"}) {
    if (reader.Given(key) && reader.Good({key})) {
      reader.Complain(key, absl::StrCat(key, " needs a place to write to; give checkpoint.folder"));
    }
  }
  if (config.resume == kResumeAuto) {
    reader.Complain("resume", "resume = auto needs a place to look at; give checkpoint.folder");
  }
}

}  // namespace

void CheckRunConfig(RunConfig& config, int64_t world, ConfigReader& reader) {
  CheckModel(config.model, reader);
  CloseBatch(config.batch, world, reader);
  CheckSchedule(config.schedule, reader);
  CheckOffload(config, reader);
  CheckOutput(config, reader);
  CheckCheckpoints(config, reader);
}

}  // namespace tessera
