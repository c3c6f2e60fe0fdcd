#ifndef TESSERA_SHARDING_BUILD_H_
#define TESSERA_SHARDING_BUILD_H_

#include "absl/status/statusor.h"
#include "models/module.h"
#include "sharding/plan.h"

namespace tessera {

// The whole of planning but verification: lists the instructions of a step
// (Build), derives the waits between lanes (Order), and gives every buffer its
// offset (Place). The persistent buffers of a model come first and in the same
// order in all plans of one model, stage and world, so plans share their arenas.
//
// InvalidArgument if the options or the model make no sense together; the
// message says which and what to change.
absl::StatusOr<Plan> BuildPlan(const Model& model, const PlanOptions& options);

// The first part of it: buffers that have no offset yet, and instructions without the
// waits between lanes. Enough for what a step moves, and quick.
absl::StatusOr<Plan> ListPlan(const Model& model, const PlanOptions& options);

// Adds to every instruction the waits that order all conflicting accesses, and
// no wait that another one implies.
void Order(Plan* plan);

// Sets every buffer's offset and the arenas' sizes.
void Place(Plan* plan);

// When a buffer is alive, in points of the compute lane (Place's own unit: see
// place.cc). Two buffers whose lifetimes are disjoint are never alive together,
// whatever the lanes do.
struct Lifetime {
  int begin = 0;
  int end = 0;
};
std::vector<Lifetime> LifetimesOf(const Plan& plan);

}  // namespace tessera

#endif  // TESSERA_SHARDING_BUILD_H_
