#ifndef TESSERA_SHARDING_BUILDER_H_
#define TESSERA_SHARDING_BUILDER_H_

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "models/module.h"
#include "sharding/layout.h"
#include "sharding/plan.h"
#include "sharding/uses.h"

namespace tessera {

// Lists a step's buffers and instructions, in an order in which one thread
// could run them. The parts: persistent state (builder.cc), the computations
// and gathers (build_compute.cc), the gradient's way to its sum
// (build_gradient.cc), the moves of what lives off the device (build_offload.cc), and
// the end of the step (build_norm.cc, build_update.cc).
class Builder {
 public:
  Builder(const Model& model, const PlanOptions& options, std::vector<UnitPartition> partitions);

  Plan Build();

 private:
  bool train() const { return options_.kind == PlanOptions::Kind::kTrain; }
  bool alone() const { return options_.world == 1; }
  bool parameters_sharded() const { return options_.stage == 3 && !alone(); }
  bool gradients_sharded() const { return options_.stage >= 2 && !alone(); }
  bool optimizer_sharded() const { return options_.stage >= 1 && !alone(); }
  // The leaves of a step are added before they are reduced.
  bool accumulates_first() const {
    return options_.accumulation > 1 && (alone() || options_.stage < 2);
  }
  // Whether a unit's parameters are somewhere else until they are used.
  bool Arrives(int unit) const {
    return parameters_sharded() || layout_.ParametersOf(unit) != Tier::kDevice;
  }
  int64_t element() const { return SizeOf(model_.dtype); }
  int units() const { return static_cast<int>(model_.units.size()); }
  bool empty(int unit) const { return plan_.partitions[unit].padded == 0; }
  const UnitPartition& partition(int unit) const { return plan_.partitions[unit]; }

  int AddBuffer(std::string name, Category category, int64_t bytes, int64_t shard_bytes = 0,
                bool persistent = false);
  int AddBufferIn(Tier tier, std::string name, Category category, int64_t bytes);
  Instruction& Add(Operation operation, LaneKind lane);
  int LastCompute() const;
  Access Whole(Role role, int buffer, int index = 0) const;
  // Elements [first, first + elements) of what this rank updates of a unit.
  Access Part(Role role, int buffer, int64_t first, int64_t elements, int64_t element_bytes) const;
  Access Own(Role role, int buffer) const;
  Access Others(Role role, int buffer) const;
  Access Slice(Role role, int buffer, int unit, int parameter, int64_t element_bytes,
               int index) const;

  // builder.cc
  void AddState();
  void AddSnapshot();

  // build_compute.cc
  void StageBatches();
  void Gathers(int position);
  void Releases(int position);
  void Forward(const Position& at, bool recompute);
  void Backward(const Position& at);
  void AddFields(const Position& at, Instruction* instruction) const;
  void AddParameters(const Position& at, Instruction* instruction) const;
  Access Loss(const Position& at) const;
  bool Recomputes(int call) const {
    return train() && options_.recompute && model_.calls[call].recomputable;
  }

  // build_offload.cc
  struct Ranges {
    Access from, to;
  };
  struct Ring {
    std::vector<int> buffers;
    size_t next = 0;
  };
  // What a move is for, as its trace says.
  struct Purpose {
    int unit = -1, call = -1, micro_step = -1;
  };
  int Move(Operation operation, const Purpose& purpose, const std::vector<Ranges>& ranges);
  int MoveWhole(Operation operation, const Purpose& purpose, int from, int to);
  // One of a few buffers that take turns, with room for `bytes`.
  int NextOf(absl::string_view kind, Tier tier, int64_t bytes);
  // Of the transients of a kind that are filled and emptied by turns, two at most are
  // alive: the next waits until the last but one is empty.
  void WaitForLastButOne(const std::vector<int>& ends, int instruction);
  void WriteBehind(const Purpose& purpose, int from, int to);
  void CopyIn(const Purpose& purpose, int home, int to, int after);
  void KeepInput(const Position& at);
  void ReturnInputs(int position);

  // build_gradient.cc
  int BeginLeaf(int unit, int micro_step);
  void AddGradientWrites(const Position& at, Instruction* backward);
  void Fold(int unit, int parameter, int micro_step);
  void FoldAndReduce(const Position& at);
  void ReduceLeaf(int unit, int micro_step);
  void Accumulate(int unit, int micro_step);
  bool LeafPasses(int unit) const {
    return gradients_sharded() || layout_.GradientOf(unit) != Tier::kDevice;
  }
  // Of the buffers that take the turn before this unit's leaf, each one's end.
  const std::vector<int>& LeafEnds(int unit) const {
    return leaf_[unit] == gradients_[unit] ? gradient_ends_ : leaf_ends_;
  }
  int HostGradient(int unit);
  void FinishGradient(int unit);
  void ExchangeAndSum(int unit, int micro_step, int buffer);
  std::vector<Access> Slots(int unit, int64_t leaves, int64_t first_element, int64_t elements);

  // build_norm.cc
  void HostSquareNorm(int unit, int gradient);
  void FinishStep();
  void FinishForward();

  // build_update.cc
  void Update(int unit);
  void UpdateTile(int unit, bool on_device, int64_t first, int64_t elements);
  Access GradientOfTile(int unit, bool on_device, int64_t first, int64_t elements);
  void SendParameters(int unit, bool on_device, Instruction update);
  int WholeAfterUpdate(int unit) const {
    return updated_[unit] >= 0 ? updated_[unit] : parameters_[unit];
  }
  void GatherUpdated(int unit);

  const Model& model_;
  const PlanOptions options_;
  const Uses uses_;
  const Layout layout_;
  Plan plan_;
  std::vector<Footprint> footprints_;
  std::vector<Position> sequence_;
  std::vector<Span> spans_;
  size_t next_span_ = 0;

  // Buffers, by unit (or micro-step, or call).
  std::vector<int> parameters_, gradients_;
  struct OptimizerState {
    int master = -1, momentum = -1, variance = -1;
  };
  std::vector<OptimizerState> device_state_, offloaded_state_;
  std::vector<int> whole_;     // where a unit's parameters are whole at present
  std::vector<int> gathered_;  // by span
  std::vector<std::vector<int>> fields_;
  std::vector<int> hidden_, saved_;
  std::vector<int> kept_;   // by call: where its input waits off the device
  size_t next_return_ = 0;  // position
  int hidden_gradient_ = -1;
  int losses_ = -1;
  int prediction_ = -1;
  int staging_ = -1;
  std::vector<int> leaf_;                            // of the present micro-step, or -1
  std::map<std::pair<int, int>, int> slots_;         // (unit, level)
  std::map<int, int> total_;                         // the rank's own finished sum, by unit
  std::map<std::array<int, 3>, int> contributions_;  // (unit, parameter, call)
  // The last instruction of another lane that reads a leaf, leaf by leaf.
  std::vector<int> leaf_ends_;
  std::vector<int> gradient_ends_;  // the same of finished gradients that leave the device
  std::vector<int> host_sums_;      // of leaves that are added on the host
  std::vector<int> writes_behind_;  // to NVMe, of transients
  std::vector<int> updated_ends_;
  std::vector<int> gradient_home_;  // by unit: where its finished gradient waits
  std::vector<int> updated_;        // by unit: where its parameters are whole after the update
  std::map<std::string, Ring, std::less<>> rings_;
  int clip_ = -1;
  int host_accumulator_ = -1;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_BUILDER_H_
