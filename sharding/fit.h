#ifndef TESSERA_SHARDING_FIT_H_
#define TESSERA_SHARDING_FIT_H_

#include "absl/status/statusor.h"
#include "models/module.h"
#include "sharding/plan.h"
#include "sharding/trainer.h"

namespace tessera {

// Whether a run's plans fit its tiers.
bool Fits(const PlanSet& plans, const TierBytes& capacity);

// Whether a run's plans would fit, as far as plans of few micro-steps tell. Quicker than
// making them where there are many.
absl::StatusOr<bool> SeemsToFit(const Model& model, const PlanOptions& options,
                                const TierBytes& capacity);

// What the moves between a rank's tiers and the host's updates would add to a step if
// nothing hid them, in seconds, at nominal rates: for comparing placements, not for
// predicting them.
absl::StatusOr<double> SecondsOfOffload(const Model& model, const PlanOptions& options);

// Which categories may be put anywhere.
struct Freedom {
  bool optimizer = false;
  bool gradients = false;
  bool parameters = false;
  bool activations = false;

  bool Any() const { return optimizer || gradients || parameters || activations; }
};

// The placement that fits, has options.offload where there is no freedom, and adds the
// fewest SecondsOfOffload: whole categories, and then the least part of the optimizer,
// in sixteenths. ResourceExhausted if none fits. The same for the same arguments. All 81
// placements are priced, and few are planned: not those that hold too much between
// steps, nor those that leave more on the device than one that left too much.
absl::StatusOr<Offload> ChooseOffload(const Model& model, const PlanOptions& options,
                                      const Freedom& freedom, const TierBytes& capacity);

}  // namespace tessera

#endif  // TESSERA_SHARDING_FIT_H_
