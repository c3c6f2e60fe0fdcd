#ifndef TESSERA_SHARDING_VERIFY_H_
#define TESSERA_SHARDING_VERIFY_H_

#include "absl/status/status.h"
#include "models/module.h"
#include "sharding/plan.h"

namespace tessera {

// Proves a plan safe, or says why it is not: FailedPrecondition, naming the rule,
// the instructions and the buffer. The rules:
//   0  waits point backwards in the list
//   1  every byte read was fully written before
//   2  two accesses to the same bytes, one of them a write, are ordered by lanes
//      and waits alone
//   3  buffers that share memory are never alive together, every tier's arena fits
//      `capacity`, and host work touches no other tier than the host's
//   4  collectives run in the communication lane, with sizes that match on every rank
//   5  values: every instruction reads what the step's arithmetic wants there
//   6  induction: the state left is the state assumed, one version on
// It trusts neither Build nor Order nor Place.
absl::Status Verify(const Plan& plan, const Model& model, const TierBytes& capacity);

// The parts of Verify: rules 0, 2, 3, 4; and rules 1, 5, 6.
absl::Status VerifyMemory(const Plan& plan, const Model& model, const TierBytes& capacity);
absl::Status VerifyValues(const Plan& plan, const Model& model);

}  // namespace tessera

#endif  // TESSERA_SHARDING_VERIFY_H_
