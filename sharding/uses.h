#ifndef TESSERA_SHARDING_USES_H_
#define TESSERA_SHARDING_USES_H_

#include <vector>

#include "absl/status/status.h"
#include "models/module.h"
#include "sharding/plan.h"

namespace tessera {

// Where a model's parameters are used, as the planner wants to know it.
class Uses {
 public:
  // InvalidArgument if a call names no such parameter, if a parameter is never
  // used, if the model has no calls, or if the last does not read its parameters in
  // its backward or would be recomputed; the message names it.
  static absl::Status Check(const Model& model);

  explicit Uses(const Model& model);

  // The calls that use the parameter, in order of the backward: last call first.
  const std::vector<int>& Of(int unit, int parameter) const { return uses_[unit][parameter]; }
  bool IsTied(int unit, int parameter) const { return uses_[unit][parameter].size() > 1; }

  // The units that a call uses, each once, in the order of its uses.
  const std::vector<int>& UnitsOf(int call) const { return units_[call]; }

  // The earliest call that uses the unit: its backward completes the unit's leaf.
  int FirstCallOf(int unit) const { return first_call_[unit]; }

 private:
  std::vector<std::vector<std::vector<int>>> uses_;
  std::vector<std::vector<int>> units_;
  std::vector<int> first_call_;
};

// One position of a step's sequence of computations: the forward of the calls in
// order, in training but for the last, and then their backward in reverse, for each
// micro-step.
struct Position {
  int micro_step = 0;
  int call = 0;
  bool backward = false;
};
std::vector<Position> SequenceOf(const Model& model, const PlanOptions& options);

// For how long a unit stays gathered: over positions [first, last].
struct Span {
  int unit = 0;
  int first = 0;
  int last = 0;
  int issue = 0;  // the position before which its gather is issued
};

// The gathers of the units that are elsewhere until then, `arrives`, in order of need
// (at stage 3 that is all). A unit is gathered for each use, but stays where the next position uses
// it too; and where that would make more than two gathers in a micro-step, it stays over its whole
// forward and over its whole backward, so the traffic keeps to three times its size. A gather is
// issued options.prefetch places of need ahead of its own.
std::vector<Span> GatherSpans(const Model& model, const Uses& uses,
                              const std::vector<Position>& sequence, const PlanOptions& options,
                              const std::vector<bool>& arrives);

}  // namespace tessera

#endif  // TESSERA_SHARDING_USES_H_
