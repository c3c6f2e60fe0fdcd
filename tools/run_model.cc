#include "tools/run_model.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "sharding/fit.h"

namespace tessera {
namespace {

// What is placed automatically is on the device until it is.
Placement PlacementOf(const RunConfig::Policy& policy) {
  switch (policy.tier) {
    case OffloadTier::kHost:
      return {Tier::kHost, policy.fraction};
    case OffloadTier::kNvme:
      return {Tier::kNvme, policy.fraction};
    default:
      return {};
  }
}

bool IsFree(const RunConfig::Policy& policy) { return policy.tier == OffloadTier::kAuto; }

Freedom FreedomOf(const RunConfig& config) {
  return {IsFree(config.offload.optimizer), IsFree(config.offload.gradients),
          IsFree(config.offload.parameters), IsFree(config.offload.activations)};
}

absl::StatusOr<int64_t> FreeIn(const std::string& folder) {
  struct statvfs file_system = {};
  if (statvfs(folder.c_str(), &file_system) != 0) {
    const int error = errno;
    return absl::InvalidArgumentError(absl::StrCat(
        folder, ": cannot tell what is free in the folder of memory.nvme.path: ",
        std::strerror(error), " (errno ", error, "); make the folder, or name another"));
  }
  return static_cast<int64_t>(file_system.f_bavail) * static_cast<int64_t>(file_system.f_frsize);
}

}  // namespace

Gpt2Config Gpt2ConfigOf(const RunConfig& config) {
  Gpt2Config gpt2;
  gpt2.layers = config.model.layers;
  gpt2.heads = config.model.heads;
  gpt2.width = config.model.width;
  gpt2.context = config.model.context;
  gpt2.vocabulary = config.model.vocabulary;
  gpt2.dropout = config.model.dropout;
  return gpt2;
}

absl::StatusOr<Model> MakeModel(const RunConfig& config) {
  return MakeGpt2(Gpt2ConfigOf(config), config.precision);
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
  options.plan.snapshot = !config.checkpoint.folder.empty();
  options.plan.recompute = config.recompute == Recompute::kBlock;
  options.plan.offload = {
      PlacementOf(config.offload.optimizer), PlacementOf(config.offload.gradients),
      PlacementOf(config.offload.parameters), PlacementOf(config.offload.activations)};
  options.nvme_folder = config.memory.nvme_path;
  options.optimizer.beta1 = config.optimizer.betas[0];
  options.optimizer.beta2 = config.optimizer.betas[1];
  options.optimizer.epsilon = config.optimizer.epsilon;
  options.optimizer.weight_decay = config.optimizer.weight_decay;
  options.optimizer.clip_norm = config.optimizer.clip_norm;
  options.seed = static_cast<uint64_t>(config.seed);
  return options;
}

absl::StatusOr<TierBytes> CapacityOf(const RunConfig& config, Backend backend, int ranks_here,
                                     std::optional<int64_t> free_bytes) {
  TierBytes capacity = kUnlimitedTiers;
  if (ranks_here > 0) {
    const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    const int64_t share = std::max(machine / ranks_here - config.memory.reserve, int64_t{0});
    capacity[Tier::kHost] = share;
    if (backend == Backend::kCpu) {
      capacity[Tier::kDevice] = share;
      // Both are the same memory.
      capacity[Tier::kHost] = std::max(share - config.memory.device, int64_t{0});
    }
  }
  if (free_bytes) {
    capacity[Tier::kDevice] = std::max(*free_bytes - config.memory.reserve, int64_t{0});
  }
  if (config.memory.nvme_path.empty()) {
    capacity[Tier::kNvme] = 0;
  } else if (config.memory.nvme_capacity > 0) {
    capacity[Tier::kNvme] = config.memory.nvme_capacity;
  } else if (ranks_here > 0 && PlacesAutomatically(config)) {
    // What was placed by hand and finds no room, the file system says when it is made.
    TESSERA_ASSIGN_OR_RETURN(const int64_t free, FreeIn(config.memory.nvme_path));
    capacity[Tier::kNvme] = free / ranks_here;
  }
  if (config.memory.device > 0) capacity[Tier::kDevice] = config.memory.device;
  if (config.memory.host > 0) capacity[Tier::kHost] = config.memory.host;
  return capacity;
}

bool PlacesAutomatically(const RunConfig& config) { return FreedomOf(config).Any(); }

absl::StatusOr<PlanOptions> PlacedOptions(const RunConfig& config, const Model& model, int world,
                                          Backend backend, const TierBytes& capacity) {
  PlanOptions options = MakeTrainerOptions(config, world).plan;
  options.library_workspace_bytes = LibraryWorkspaceBytes(backend);
  const Freedom freedom = FreedomOf(config);
  if (freedom.Any()) {
    TESSERA_ASSIGN_OR_RETURN(options.offload, ChooseOffload(model, options, freedom, capacity));
  }
  return options;
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
