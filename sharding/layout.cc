#include "sharding/layout.h"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

// Which of things of some sizes go to the placement's tier: so many that what went
// is, after each of them, as near as can be to its fraction of what there was.
std::vector<Tier> Choose(const Placement& placement, const std::vector<int64_t>& sizes) {
  std::vector<Tier> tiers(sizes.size(), Tier::kDevice);
  if (placement.tier == Tier::kDevice) return tiers;
  double seen = 0;
  double gone = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto size = static_cast<double>(sizes[i]);
    seen += size;
    if (size == 0 || placement.fraction * seen - gone < size / 2) continue;
    gone += size;
    tiers[i] = placement.tier;
  }
  return tiers;
}

}  // namespace

Layout::Layout(const Model& model, const PlanOptions& options,
               const std::vector<UnitPartition>& partitions)
    : optimizer_tier_(options.offload.optimizer.tier),
      reduced_(model.dtype != DType::kFloat32),
      adds_alone_(options.world == 1 && options.accumulation > 1) {
  const Offload& offload = options.offload;
  std::vector<int64_t> sizes;
  for (const UnitPartition& partition : partitions) {
    sizes.push_back(partition.padded);
    const int64_t elements = options.stage >= 1 ? partition.shard : partition.padded;
    state_elements_.push_back(elements);
    const double kept = optimizer_tier_ == Tier::kDevice ? 1.0 : 1.0 - offload.optimizer.fraction;
    const auto tiles =
        std::llround(kept * static_cast<double>(elements) / static_cast<double>(kTileAlignment));
    device_elements_.push_back(kept == 1 ? elements
                                         : std::min<int64_t>(tiles * kTileAlignment, elements));
  }
  parameters_ = Choose(offload.parameters, sizes);
  gradients_ = Choose(offload.gradients, sizes);

  // The first call has no input; the last runs backward at once.
  std::vector<int64_t> inputs(model.calls.size(), 0);
  const bool train = options.kind == PlanOptions::Kind::kTrain;
  for (size_t c = 1; train && c + 1 < model.calls.size(); ++c) {
    inputs[c] = BytesOf(model.calls[c - 1].module->Measure(options.micro_sequences).output);
  }
  inputs_ = Choose(offload.activations, inputs);
  AddState(options, partitions);
}

void Layout::AddState(const PlanOptions& options, const std::vector<UnitPartition>& partitions) {
  for (int unit = 0; unit < static_cast<int>(partitions.size()); ++unit) {
    const int64_t held = options.stage == 3 ? partitions[unit].shard : partitions[unit].padded;
    state_.push_back({Role::kParameter, unit, 0, held, parameters_[unit]});
    const int64_t cut = device_elements_[unit];
    const auto add = [&](bool on_device, int64_t first, int64_t elements) {
      if (elements == 0) return;
      const Tier tier = on_device ? Tier::kDevice : optimizer_tier_;
      if (HasMaster(unit, on_device))
        state_.push_back({Role::kMaster, unit, first, elements, tier});
      state_.push_back({Role::kMomentum, unit, first, elements, tier});
      state_.push_back({Role::kVariance, unit, first, elements, tier});
    };
    add(true, 0, cut);
    add(false, cut, state_elements_[unit] - cut);
  }
}

}  // namespace tessera
