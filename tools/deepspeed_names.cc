#include "tools/deepspeed_names.h"

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

struct Name {
  const char* theirs;
  const char* ours;
};

constexpr Name kNames[] = {
    {"train_batch_size", "batch.global (sequences)"},
    {"train_micro_batch_size_per_gpu", "batch.micro (sequences)"},
    {"gradient_accumulation_steps", "batch.accumulation"},
    {"gradient_clipping", "optimizer.clip_norm"},
    {"optimizer.type", "optimizer.name"},
    {"optimizer.params", "optimizer.learning_rate, betas, epsilon and weight_decay"},
    {"lr", "optimizer.learning_rate"},
    {"eps", "optimizer.epsilon"},
    {"scheduler", "schedule.name"},
    {"warmup_num_steps", "schedule.warmup_steps"},
    {"total_num_steps", "schedule.steps"},
    {"bf16", "precision: bf16"},
    {"fp16", "precision: bf16, which needs no loss scale"},
    {"zero_optimization", "zero.stage, zero.prefetch and zero.bucket"},
    {"zero_optimization.stage", "zero.stage"},
    {"reduce_bucket_size", "zero.bucket (bytes with a unit, not elements)"},
    {"allgather_bucket_size", "zero.bucket (bytes with a unit, not elements)"},
    {"stage3_prefetch_bucket_size", "zero.prefetch (units gathered ahead, not elements)"},
    {"stage3_max_live_parameters", "zero.prefetch (units gathered ahead, not elements)"},
    {"stage3_max_reuse_distance", "zero.prefetch (units gathered ahead, not elements)"},
    {"offload_optimizer", "offload.optimizer"},
    {"offload_param", "offload.parameters"},
    {"cpu_offload", "offload.optimizer"},
    {"cpu_offload_params", "offload.parameters"},
    {"cpu_checkpointing", "offload.activations"},
    {"max_in_cpu", "offload.parameters.fraction"},
    {"nvme_path", "memory.nvme.path"},
    {"ratio", "offload.optimizer.fraction"},
    {"activation_checkpointing", "recompute: block"},
    {"wandb", "the command's --metrics FILE.jsonl"},
    {"tensorboard", "the command's --metrics FILE.jsonl"},
};

// What Tessera always does, or decides from the plan.
constexpr const char* kNeedless[] = {
    "overlap_comm",
    "contiguous_gradients",
    "reduce_scatter",
    "allgather_partitions",
    "round_robin_gradients",
    "stage3_param_persistence_threshold",
    "stage3_gather_16bit_weights_on_model_save",
    "sub_group_size",
    "communication_data_type",
    "prescale_gradients",
    "gradient_predivide_factor",
    "loss_scale",
    "initial_scale_power",
    "loss_scale_window",
    "hysteresis",
    "min_loss_scale",
    "pin_memory",
    "buffer_count",
    "aio",
    "steps_per_print",
    "wall_clock_breakdown",
    "zero_allow_untested_optimizer",
};

constexpr const char* kMissing[] = {
    "zero_hpz_partition_size",
    "zero_quantized_weights",
    "zero_quantized_gradients",
};

}  // namespace

void AddDeepSpeedNames(Schema& schema) {
  for (const Name& name : kNames) {
    schema.Foreign(name.theirs, absl::StrCat("is DeepSpeed's name; use ", name.ours));
  }
  for (const char* name : kNeedless) {
    schema.Foreign(name, "is DeepSpeed's name; Tessera needs no such setting: remove it");
  }
  for (const char* name : kMissing) {
    schema.Foreign(name, "is DeepSpeed's name; this version has no such feature: remove it");
  }
}

}  // namespace tessera
