#include "tools/check_run.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "sharding/price.h"
#include "sharding/verify.h"
#include "tools/remedies.h"
#include "tools/run_model.h"

namespace tessera {
namespace {

// "optimizer (123 bytes)": what takes the most of a tier.
std::string Heaviest(const Plan& plan, Tier tier) {
  const Price price = PriceOf(plan);
  int heaviest = 0;
  for (int c = 0; c < kCategories; ++c) {
    if (price.memory[c][tier] > price.memory[heaviest][tier]) heaviest = c;
  }
  return absl::StrCat(NameOf(static_cast<Category>(heaviest)), " (", price.memory[heaviest][tier],
                      " bytes)");
}

// Where nothing that is placed automatically fits: as little on the device as can be.
PlanOptions AllOnHost(const RunConfig& config, int world, Backend backend) {
  RunConfig placed = config;
  RunConfig::Offload& offload = placed.offload;
  for (RunConfig::Policy* policy :
       {&offload.optimizer, &offload.gradients, &offload.parameters, &offload.activations}) {
    if (policy->tier == OffloadTier::kAuto) *policy = {OffloadTier::kHost, 1};
  }
  PlanOptions options = MakeTrainerOptions(placed, world).plan;
  options.library_workspace_bytes = LibraryWorkspaceBytes(backend);
  return options;
}

}  // namespace

absl::StatusOr<PlanSet> CheckRun(const RunConfig& config, int world, Backend backend,
                                 const TierBytes& capacity) {
  TESSERA_ASSIGN_OR_RETURN(const Model model, MakeModel(config));
  absl::StatusOr<PlanOptions> options = PlacedOptions(config, model, world, backend, capacity);
  if (absl::IsResourceExhausted(options.status())) options = AllOnHost(config, world, backend);
  if (!options.ok()) return options.status();
  TESSERA_ASSIGN_OR_RETURN(PlanSet plans, BuildPlans(model, *options));
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
        tier == Tier::kNvme ? "nvme.capacity" : NameOf(tier), "), most of them for ",
        Heaviest(plans.train, tier), "; ", Remedies(config, model, world, backend, capacity)));
  }
  return plans;
}

}  // namespace tessera
