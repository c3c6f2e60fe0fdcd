#ifndef TESSERA_SHARDING_LAYOUT_H_
#define TESSERA_SHARDING_LAYOUT_H_

#include <vector>

#include "models/module.h"
#include "sharding/plan.h"

namespace tessera {

// Where the options of a plan put what a step works on: which tier has which unit's
// state and gradient, and which call's input. It follows from the model and the
// options alone, so that what builds a plan and what verifies it agree.
class Layout {
 public:
  Layout(const Model& model, const PlanOptions& options,
         const std::vector<UnitPartition>& partitions);

  Tier ParametersOf(int unit) const { return parameters_[unit]; }
  // Of the step's gradient, once it is finished.
  Tier GradientOf(int unit) const { return gradients_[unit]; }
  // Of the call's input, between its forward and its backward.
  Tier InputOf(int call) const { return inputs_[call]; }

  // The elements of a unit that one rank updates: all, or its shard.
  int64_t StateElements(int unit) const { return state_elements_[unit]; }
  // The first so many of them are updated on the device; the rest lives in the
  // optimizer's tier and is updated on the host.
  int64_t DeviceElements(int unit) const { return device_elements_[unit]; }
  Tier OptimizerTier() const { return optimizer_tier_; }

  // Whether the fp32 master weights of that part of a unit are apart from its parameters.
  bool HasMaster(int unit, bool on_device) const {
    return reduced_ || !on_device || parameters_[unit] != Tier::kDevice;
  }

  // Whether the unit's partial sums over micro-steps are the host's: of a rank alone,
  // whose gradient goes there. Of several ranks they are exchanged from the device.
  bool SumsOnHost(int unit) const { return adds_alone_ && gradients_[unit] != Tier::kDevice; }

  // All state that lives across steps, in the order in which every plan of the model
  // has it. No buffers are named.
  const std::vector<StatePart>& state() const { return state_; }

 private:
  void AddState(const PlanOptions& options, const std::vector<UnitPartition>& partitions);

  const Tier optimizer_tier_;
  const bool reduced_;                        // the model's dtype is not fp32
  const bool adds_alone_;                     // the leaves of its micro-steps
  std::vector<Tier> parameters_, gradients_;  // by unit
  std::vector<Tier> inputs_;                  // by call
  std::vector<int64_t> state_elements_, device_elements_;
  std::vector<StatePart> state_;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_LAYOUT_H_
