#ifndef TESSERA_SHARDING_TESTING_MUTANTS_H_
#define TESSERA_SHARDING_TESTING_MUTANTS_H_

#include <functional>
#include <string>

#include "sharding/plan.h"

namespace tessera::testing {

// A plan with one fault.
struct Mutant {
  std::string kind;    // e.g. "wait removed"
  std::string detail;  // which instruction or buffer
  Plan plan;
};

// Makes single-fault mutants of a correct plan and calls visit for every
// `stride`-th of each kind, beginning with number `first`; of the many that give a
// buffer another's offset, every 20 * stride-th. Where instructions are
// moved, dropped or doubled, waits keep their meaning: they follow the instruction
// that they name, and a wait for a dropped one becomes waits for what that one came
// after.
void ForEachMutant(const Plan& plan, int first, int stride,
                   const std::function<void(const Mutant&)>& visit);

}  // namespace tessera::testing

#endif  // TESSERA_SHARDING_TESTING_MUTANTS_H_
