#ifndef TESSERA_OFFLOAD_PLACEMENT_H_
#define TESSERA_OFFLOAD_PLACEMENT_H_

#include "absl/strings/string_view.h"
#include "offload/tier.h"

namespace tessera {

// Where one category of a run's bytes lives: `fraction` of it in `tier`, the rest on
// the device. For the device itself the fraction means nothing.
struct Placement {
  Tier tier = Tier::kDevice;
  double fraction = 1;  // in [0, 1]

  friend bool operator==(const Placement&, const Placement&) = default;
};

// Of the categories that can live elsewhere. The optimizer's state is cut at an
// element; of the others, whole units or whole calls go.
struct Offload {
  Placement optimizer;    // master weights and moments; the update runs where they are
  Placement gradients;    // the step's gradient, from when it is finished until its update
  Placement parameters;   // what forward and backward read; they come in before every use
  Placement activations;  // the inputs of calls, from their forward to their backward

  friend bool operator==(const Offload&, const Offload&) = default;
};

// Calls visit(name, placement) for each category, in the order above.
template <typename Visit>
void ForEachPlacement(const Offload& offload, Visit visit) {
  visit(absl::string_view("optimizer"), offload.optimizer);
  visit(absl::string_view("gradients"), offload.gradients);
  visit(absl::string_view("parameters"), offload.parameters);
  visit(absl::string_view("activations"), offload.activations);
}

// Bytes that a rank moves between its tiers in one run of a plan.
struct TierTraffic {
  int64_t copied_in = 0;   // host to device
  int64_t copied_out = 0;  // device to host
  int64_t read = 0;        // NVMe to host
  int64_t written = 0;     // host to NVMe

  friend bool operator==(const TierTraffic&, const TierTraffic&) = default;
};

}  // namespace tessera

#endif  // TESSERA_OFFLOAD_PLACEMENT_H_
