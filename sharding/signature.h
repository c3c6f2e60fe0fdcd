#ifndef TESSERA_SHARDING_SIGNATURE_H_
#define TESSERA_SHARDING_SIGNATURE_H_

#include <array>
#include <vector>

#include "models/module.h"
#include "sharding/layout.h"
#include "sharding/plan.h"
#include "sharding/uses.h"
#include "sharding/value.h"

namespace tessera {

// One operand as the arithmetic of the step demands it.
struct Operand {
  Role role = Role::kInput;
  int index = 0;
  int64_t bytes = 0;
  int64_t begin = -1;  // in the whole or the shard; -1 where any place will do
  Value value;         // what a read must find, or what a write leaves
  int64_t shard = 0;   // bytes of a rank's shard, if `begin` is in that
};

struct Signature {
  std::vector<Operand> reads;
  std::vector<Operand> writes;
};

// What each instruction of a step but a move must read and write, from the model and the
// options alone: nothing here looks at how the plan was built.
class Signatures {
 public:
  Signatures(const Model& model, const PlanOptions& options,
             const std::vector<UnitPartition>& partitions);

  // What an instruction finds that could be one of two things.
  struct Found {
    int parameter_version = 0;  // of what is gathered
    bool host_norm = false;     // whether what is reduced is of the host's units
  };
  Signature Of(const Instruction& instruction, const Found& found) const;

  const Layout& layout() const { return layout_; }

 private:
  Signature Forward(const Instruction& instruction) const;
  Signature Backward(const Instruction& instruction) const;
  Signature Sum(const Instruction& instruction, bool own) const;
  Signature Update(const Instruction& instruction) const;
  static Operand Loss(const Instruction& instruction);
  void AddInputs(const Instruction& instruction, bool parameters, Signature* signature) const;
  std::vector<Operand> Slots(int unit, int64_t leaves, int64_t begin, int64_t elements) const;
  Operand Slice(Role role, int unit, int parameter, int index, const Value& value) const;
  Value FinishedGradient(int unit) const;
  int64_t element() const { return SizeOf(model_.dtype); }
  // The operand in this rank's shard of the unit, whose elements have `size` bytes.
  Operand InShard(Operand operand, int unit, int64_t size) const;
  Signature SquareNorm(const Instruction& instruction) const;

  const Model& model_;
  const PlanOptions options_;
  const std::vector<UnitPartition>& partitions_;
  const Uses uses_;
  const Layout layout_;
  std::vector<Footprint> footprints_;
  std::vector<int> units_;  // that have any elements, in order
  // The units whose gradients' norms are added on the device, and on the host, in order.
  std::array<std::vector<int>, 2> norms_;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_SIGNATURE_H_
