#ifndef TESSERA_SHARDING_TESTING_BRUTE_FORCE_H_
#define TESSERA_SHARDING_TESTING_BRUTE_FORCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "sharding/plan.h"

namespace tessera::testing {

// What a plan does, found without the verifier's cleverness and without its code:
// every pair of instructions, every byte's address on every rank, and a run of the
// step on numbers that mean nothing but tell apart whatever differs.

// before[i][j]: instruction j is complete before instruction i starts, by the order
// of each lane and the waits: their transitive closure.
std::vector<std::vector<bool>> ClosureOf(const Plan& plan);

// Two accesses to the same byte of some rank's arena, one of them a write, that the
// closure does not order; or a wait or an access that leads out of the plan. Empty
// if there is none.
std::string FindConflict(const Plan& plan);

// Runs the plan on all ranks in the order of the list. An addition is a hash of both
// operands in their order, so the results are equal only if everything was read
// where it was in the original, and summed in the same order. Returns the state that
// the step leaves and what it reports, rank by rank. `dtype` is the model's; the plan
// must be without conflicts.
std::vector<uint64_t> RunOnHashes(const Plan& plan, DType dtype);

// The most bytes alive at once. A buffer is alive while an instruction runs unless
// all its accesses are complete before that starts, or none can start before that
// is complete; a persistent one always is. Buffers count as multiples of the tier's
// granule.
int64_t MostAliveByClosure(const Plan& plan, Tier tier);

}  // namespace tessera::testing

#endif  // TESSERA_SHARDING_TESTING_BRUTE_FORCE_H_
