#ifndef TESSERA_SHARDING_BUILDER_H_
#define TESSERA_SHARDING_BUILDER_H_

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "models/module.h"
#include "sharding/plan.h"
#include "sharding/uses.h"

namespace tessera {

// Lists a step's buffers and instructions, in an order in which one thread
// could run them. The parts: persistent state (builder.cc), the computations
// and gathers (build_compute.cc), the gradient's way to its sum
// (build_gradient.cc), and the end of the step (build_update.cc).
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
  bool has_master() const { return model_.dtype != DType::kFloat32; }
  int64_t element() const { return SizeOf(model_.dtype); }
  int units() const { return static_cast<int>(model_.units.size()); }
  bool empty(int unit) const { return plan_.partitions[unit].padded == 0; }
  const UnitPartition& partition(int unit) const { return plan_.partitions[unit]; }

  int AddBuffer(std::string name, Category category, int64_t bytes, int64_t shard_bytes = 0,
                bool persistent = false);
  // One that host work reads or writes.
  int AddHostBuffer(std::string name, Category category, int64_t bytes);
  Instruction& Add(Operation operation, LaneKind lane);
  int LastCompute() const;
  Access Whole(Role role, int buffer, int index = 0) const;
  Access Own(Role role, int buffer) const;
  Access Others(Role role, int buffer) const;
  Access Slice(Role role, int buffer, int unit, int parameter, int64_t element_bytes,
               int index) const;

  // builder.cc
  void AddState();

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

  // build_gradient.cc
  int BeginLeaf(int unit, int micro_step);
  void AddGradientWrites(const Position& at, Instruction* backward);
  void Fold(int unit, int parameter, int micro_step);
  void FoldAndReduce(const Position& at);
  void ReduceLeaf(int unit, int micro_step);
  void Accumulate(int unit, int micro_step);
  void ExchangeAndSum(int unit, int micro_step, int buffer);
  std::vector<Access> Slots(int unit, int64_t leaves, int64_t first_element, int64_t elements);

  // build_update.cc
  void FinishTraining();
  void FinishForward();

  const Model& model_;
  const PlanOptions options_;
  const Uses uses_;
  Plan plan_;
  std::vector<Footprint> footprints_;
  std::vector<Position> sequence_;
  std::vector<Span> spans_;
  size_t next_span_ = 0;

  // Buffers, by unit (or micro-step, or call).
  std::vector<int> parameters_, masters_, momenta_, variances_, gradients_;
  std::vector<int> whole_;     // where a unit's parameters are whole at present
  std::vector<int> gathered_;  // by span
  std::vector<std::vector<int>> fields_;
  std::vector<int> hidden_, saved_;
  int hidden_gradient_ = -1;
  int losses_ = -1;
  int prediction_ = -1;
  int staging_ = -1;
  std::vector<int> leaf_;                            // of the present micro-step, or -1
  std::map<std::pair<int, int>, int> slots_;         // (unit, level)
  std::map<int, int> total_;                         // the rank's own finished sum, by unit
  std::map<std::array<int, 3>, int> contributions_;  // (unit, parameter, call)
  // The last sum of each leaf of a sharded gradient, in order.
  std::vector<int> leaf_sums_;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_BUILDER_H_
