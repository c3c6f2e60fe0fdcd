#include "tools/run_model.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/gpt2.h"
#include "sharding/verify.h"

namespace tessera {

absl::StatusOr<Model> MakeModel(const RunConfig& config) {
  Gpt2Config gpt2;
  gpt2.layers = config.model.layers;
  gpt2.heads = config.model.heads;
  gpt2.width = config.model.width;
  gpt2.context = config.model.context;
  gpt2.vocabulary = config.model.vocabulary;
  gpt2.dropout = config.model.dropout;
  return MakeGpt2(gpt2, config.precision);
}

TrainerOptions MakeTrainerOptions(const RunConfig& config, int world) {
  TrainerOptions options;
  options.plan.world = world;
  options.plan.stage = static_cast<int>(config.zero.stage);
  options.plan.micro_sequences = config.batch.micro;
  options.plan.accumulation = static_cast<int>(config.batch.accumulation);
  options.plan.sum_group = config.batch.sum_group;
  options.plan.prefetch = static_cast<int>(config.zero.prefetch);
  options.plan.bucket_bytes = config.zero.bucket;
  options.plan.recompute = config.recompute == Recompute::kBlock;
  options.optimizer.beta1 = config.optimizer.betas[0];
  options.optimizer.beta2 = config.optimizer.betas[1];
  options.optimizer.epsilon = config.optimizer.epsilon;
  options.optimizer.weight_decay = config.optimizer.weight_decay;
  options.optimizer.clip_norm = config.optimizer.clip_norm;
  options.seed = static_cast<uint64_t>(config.seed);
  return options;
}

TierBytes CapacityOf(const RunConfig& config, Backend backend, int ranks_here,
                     std::optional<int64_t> free_bytes) {
  TierBytes capacity = kUnlimitedTiers;
  if (ranks_here > 0) {
    const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    const int64_t share = std::max(machine / ranks_here - config.memory.reserve, int64_t{0});
    capacity[Tier::kHost] = share;
    if (backend == Backend::kCpu) capacity[Tier::kDevice] = share;
  }
  if (free_bytes) {
    capacity[Tier::kDevice] = std::max(*free_bytes - config.memory.reserve, int64_t{0});
  }
  if (config.memory.device > 0) capacity[Tier::kDevice] = config.memory.device;
  if (config.memory.host > 0) capacity[Tier::kHost] = config.memory.host;
  return capacity;
}

absl::StatusOr<PlanSet> CheckRun(const RunConfig& config, int world, Backend backend,
                                 const TierBytes& capacity) {
  TESSERA_ASSIGN_OR_RETURN(const Model model, MakeModel(config));
  PlanOptions options = MakeTrainerOptions(config, world).plan;
  options.library_workspace_bytes = LibraryWorkspaceBytes(backend);
  TESSERA_ASSIGN_OR_RETURN(PlanSet plans, BuildPlans(model, options));
  std::vector<const Plan*> checked = {&plans.train, &plans.evaluate};
  if (model.predictor != nullptr) checked.push_back(&plans.predict);
  for (const Plan* plan : checked) {
    TESSERA_RETURN_IF_ERROR(Verify(*plan, model, plan->arena_bytes));
  }
  for (const Tier tier : kTiers) {
    const int64_t bytes = plans.arena_bytes[tier];
    if (bytes <= capacity[tier]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the run needs ", bytes, " bytes of ", NameOf(tier), " memory per rank, ",
        bytes - capacity[tier], " more than the ", capacity[tier], " there are (memory.",
        NameOf(tier),
        "); lower batch.micro, raise zero.stage or the number of ranks, or set recompute: block"));
  }
  return plans;
}

std::string WithdrawnPromise(const RunConfig& config, int world) {
  PlanOptions options = MakeTrainerOptions(config, world).plan;
  if (SumOrderIsCanonical(options)) return "";
  const int64_t given = options.sum_group;
  int64_t remedy = given;
  for (remedy = 1; remedy <= options.accumulation; ++remedy) {
    options.sum_group = remedy;
    if (SumOrderIsCanonical(options)) break;
  }
  return absl::StrCat("the same-bits promise is withdrawn: at stage ", options.stage,
                      " with batch.accumulation = ", options.accumulation,
                      " and batch.sum_group = ", given,
                      " the order of the gradient's sum depends on the number of ranks; "
                      "batch.sum_group = ",
                      remedy, " or zero.stage = 2 keeps it");
}

}  // namespace tessera
