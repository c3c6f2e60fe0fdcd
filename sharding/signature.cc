#include "sharding/signature.h"

#include <algorithm>

#include "core/exact_sum.h"
#include "core/status.h"
#include "kernels/ordered_sum.h"

namespace tessera {
namespace {

using Kind = Value::Kind;

constexpr int64_t kFloat = SizeOf(DType::kFloat32);
constexpr int64_t kDouble = SizeOf(DType::kFloat64);

}  // namespace

Signatures::Signatures(const Model& model, const PlanOptions& options,
                       const std::vector<UnitPartition>& partitions)
    : model_(model),
      options_(options),
      partitions_(partitions),
      uses_(model),
      layout_(model, options, partitions) {
  for (const Call& call : model.calls) {
    footprints_.push_back(call.module->Measure(options.micro_sequences));
  }
  if (options.kind == PlanOptions::Kind::kPredict) {
    footprints_.back() = model.predictor->Measure(options.micro_sequences);
  }
  for (size_t u = 0; u < partitions.size(); ++u) {
    if (partitions[u].padded > 0) units_.push_back(static_cast<int>(u));
  }
  for (int unit : units_) {
    if (layout_.GradientOf(unit) == Tier::kDevice) norms_[0].push_back(unit);
  }
  // The others as the backward finishes them.
  for (int call = static_cast<int>(model.calls.size()) - 1; call >= 0; --call) {
    for (int unit : uses_.UnitsOf(call)) {
      const bool finished = uses_.FirstCallOf(unit) == call && partitions[unit].padded > 0;
      if (finished && layout_.GradientOf(unit) != Tier::kDevice) norms_[1].push_back(unit);
    }
  }
}

Operand Signatures::InShard(Operand operand, int unit, int64_t size) const {
  operand.shard = partitions_[unit].shard * size;
  return operand;
}

// A step of one leaf has nothing to add: the leaf is the sum.
Value Signatures::FinishedGradient(int unit) const {
  if (options_.world == 1 && options_.accumulation == 1) return {Kind::kLeaf, unit, 0};
  return {Kind::kGradient, unit};
}

Operand Signatures::Slice(Role role, int unit, int parameter, int index, const Value& value) const {
  const UnitPartition& partition = partitions_[unit];
  return {role, index, partition.sizes[parameter] * element(),
          partition.offsets[parameter] * element(), value};
}

void Signatures::AddInputs(const Instruction& i, bool parameters, Signature* signature) const {
  for (size_t f = 0; f < model_.fields.size(); ++f) {
    signature->reads.push_back({Role::kField,
                                static_cast<int>(f),
                                options_.micro_sequences * BytesOf(model_.fields[f]),
                                0,
                                {Kind::kField, static_cast<int64_t>(f), i.micro_step}});
  }
  if (i.call > 0) {
    signature->reads.push_back({Role::kInput,
                                0,
                                BytesOf(footprints_[i.call - 1].output),
                                0,
                                {Kind::kHidden, i.call - 1, i.micro_step}});
  }
  if (!parameters) return;
  const std::vector<ParameterUse>& uses = model_.calls[i.call].uses;
  for (size_t p = 0; p < uses.size(); ++p) {
    signature->reads.push_back(Slice(Role::kParameter, uses[p].unit, uses[p].parameter,
                                     static_cast<int>(p), {Kind::kParameter, uses[p].unit, 0}));
  }
}

Operand Signatures::Loss(const Instruction& i) {
  return {Role::kLoss, 0, kDouble, i.micro_step * kDouble, {Kind::kLoss, i.micro_step}};
}

Signature Signatures::Forward(const Instruction& i) const {
  const Footprint& footprint = footprints_[i.call];
  const bool train = options_.kind == PlanOptions::Kind::kTrain;
  const bool last = model_.IsLast(i.call);
  Signature signature;
  AddInputs(i, /*parameters=*/true, &signature);
  if (train) {
    for (size_t s = 0; s < footprint.saved.size(); ++s) {
      signature.writes.push_back({Role::kSaved,
                                  static_cast<int>(s),
                                  BytesOf(footprint.saved[s]),
                                  -1,
                                  {Kind::kSaved, i.call, i.micro_step}});
    }
  }
  if (last && options_.kind == PlanOptions::Kind::kPredict) {
    signature.writes.push_back(
        {Role::kPrediction, 0, BytesOf(footprint.output), 0, {Kind::kPrediction, i.micro_step}});
  } else if (last) {
    signature.writes.push_back(Loss(i));
  } else if (!i.recompute) {
    signature.writes.push_back(
        {Role::kOutput, 0, BytesOf(footprint.output), 0, {Kind::kHidden, i.call, i.micro_step}});
  }
  if (footprint.forward_workspace > 0) {
    signature.writes.push_back(
        {Role::kWorkspace, 0, footprint.forward_workspace, -1, {Kind::kScratch}});
  }
  return signature;
}

Signature Signatures::Backward(const Instruction& i) const {
  const Call& call = model_.calls[i.call];
  const Footprint& footprint = footprints_[i.call];
  Signature signature;
  AddInputs(i, call.backward_reads_parameters, &signature);
  for (size_t s = 0; s < footprint.saved.size(); ++s) {
    signature.reads.push_back({Role::kSaved,
                               static_cast<int>(s),
                               BytesOf(footprint.saved[s]),
                               -1,
                               {Kind::kSaved, i.call, i.micro_step}});
  }
  if (model_.IsLast(i.call)) {
    signature.writes.push_back(Loss(i));
  } else {
    signature.reads.push_back({Role::kOutputGradient,
                               0,
                               BytesOf(footprint.output),
                               0,
                               {Kind::kHiddenGradient, i.call, i.micro_step}});
  }
  for (size_t p = 0; p < call.uses.size(); ++p) {
    const auto [unit, parameter] = call.uses[p];
    const int index = static_cast<int>(p);
    if (uses_.IsTied(unit, parameter)) {
      signature.writes.push_back({Role::kParameterGradient,
                                  index,
                                  partitions_[unit].sizes[parameter] * kFloat,
                                  0,
                                  {Kind::kContribution, unit, parameter, i.call, i.micro_step}});
    } else {
      signature.writes.push_back(Slice(Role::kParameterGradient, unit, parameter, index,
                                       {Kind::kLeaf, unit, i.micro_step}));
    }
  }
  if (i.call > 0) {
    signature.writes.push_back({Role::kInputGradient,
                                0,
                                BytesOf(footprints_[i.call - 1].output),
                                0,
                                {Kind::kHiddenGradient, i.call - 1, i.micro_step}});
  }
  if (footprint.backward_workspace > 0) {
    signature.writes.push_back(
        {Role::kWorkspace, 0, footprint.backward_workspace, -1, {Kind::kScratch}});
  }
  return signature;
}

std::vector<Operand> Signatures::Slots(int unit, int64_t leaves, int64_t begin,
                                       int64_t elements) const {
  std::vector<Operand> slots;
  for (int level : kernels::OccupiedSlots(leaves, options_.sum_group)) {
    slots.push_back({Role::kSlot,
                     level,
                     elements * kFloat,
                     begin * kFloat,
                     {Kind::kSlot, unit, level, leaves}});
  }
  return slots;
}

// kAccumulate (`own`), and kSum for the elements that its first read names.
Signature Signatures::Sum(const Instruction& i, bool own) const {
  const Insertion insertion = InsertionOf(options_, i);
  const UnitPartition& partition = partitions_[i.unit];
  const bool last = i.micro_step + 1 == options_.accumulation;
  const int64_t leaf_bytes = insertion.partial ? kFloat : element();
  const Value leaf =
      insertion.partial ? Value{Kind::kOwnSum, i.unit} : Value{Kind::kLeaf, i.unit, i.micro_step};
  int64_t begin = 0;
  int64_t elements = partition.padded;
  if (!own && !i.reads.empty()) {
    begin = i.reads[0].begin / leaf_bytes;
    elements = i.reads[0].bytes / leaf_bytes;
  }
  const auto placed = [&](const Operand& operand, int64_t size) {
    return own ? operand : InShard(operand, i.unit, size);
  };
  Signature signature;
  signature.reads.push_back(
      placed({Role::kLeaf, 0, elements * leaf_bytes, begin * leaf_bytes, leaf}, leaf_bytes));
  if (!own) {
    signature.reads.push_back({Role::kPieces,
                               0,
                               (options_.world - 1) * elements * leaf_bytes,
                               0,
                               {Kind::kPieces, i.unit, i.micro_step, begin * leaf_bytes}});
  }
  const bool has_slots = own || options_.stage >= 2;
  if (has_slots) {
    for (const Operand& slot : Slots(i.unit, insertion.leaves_before, begin, elements)) {
      signature.reads.push_back(placed(slot, kFloat));
    }
  }
  if (last || !has_slots) {
    const bool exchanged_next = own && options_.world > 1;
    const int64_t total_bytes = exchanged_next ? kFloat : element();
    const Value total = {exchanged_next ? Kind::kOwnSum : Kind::kGradient, i.unit};
    signature.writes.push_back(
        placed({Role::kTotal, 0, elements * total_bytes, begin * total_bytes, total}, total_bytes));
  } else {
    const int64_t leaves = insertion.leaves_before + insertion.leaves;
    for (const Operand& slot : Slots(i.unit, leaves, begin, elements)) {
      signature.writes.push_back(placed(slot, kFloat));
    }
  }
  return signature;
}

Signature Signatures::Update(const Instruction& i) const {
  const bool on_device = i.first < layout_.DeviceElements(i.unit);
  const bool has_master = layout_.HasMaster(i.unit, on_device);
  const auto operand = [&](Role role, int64_t size, const Value& value) {
    const Operand whole = {role, 0, i.elements * size, i.first * size, value};
    return options_.stage >= 1 ? InShard(whole, i.unit, size) : whole;
  };
  Signature signature;
  signature.reads.push_back(operand(Role::kGradient, element(), FinishedGradient(i.unit)));
  signature.reads.push_back({Role::kClip, 0, kDouble, 0, {Kind::kClip}});
  const auto state = [&](Role role, Kind kind) {
    signature.reads.push_back(operand(role, kFloat, {kind, i.unit, 0}));
    signature.writes.push_back(operand(role, kFloat, {kind, i.unit, 1}));
  };
  state(Role::kMaster, has_master ? Kind::kMaster : Kind::kParameter);
  state(Role::kMomentum, Kind::kMomentum);
  state(Role::kVariance, Kind::kVariance);
  if (has_master) {
    signature.writes.push_back(operand(Role::kParameter, element(), {Kind::kParameter, i.unit, 1}));
  }
  return signature;
}

Signature Signatures::SquareNorm(const Instruction& i) const {
  const bool on_host = layout_.GradientOf(i.unit) != Tier::kDevice;
  const std::vector<int>& units = norms_[on_host ? 1 : 0];
  const int64_t before = std::find(units.begin(), units.end(), i.unit) - units.begin();
  Signature signature;
  signature.reads.push_back(InShard(
      {Role::kGradient, 0, partitions_[i.unit].shard * element(), 0, FinishedGradient(i.unit)},
      i.unit, element()));
  if (before > 0) {
    signature.reads.push_back(
        {Role::kAccumulator, 0, sizeof(ExactSum), 0, {Kind::kNorm, before, on_host}});
  }
  signature.writes.push_back(
      {Role::kAccumulator, 0, sizeof(ExactSum), 0, {Kind::kNorm, before + 1, on_host}});
  return signature;
}

Signature Signatures::Of(const Instruction& i, const Found& found) const {
  Signature signature;
  const int64_t shard = i.unit < 0 ? 0 : partitions_[i.unit].shard;
  const int64_t padded = i.unit < 0 ? 0 : partitions_[i.unit].padded;
  const int64_t steps = options_.accumulation;
  const bool in_place = options_.stage < 3;
  switch (i.operation) {
    case Operation::kStageBatch:
      for (size_t f = 0; f < model_.fields.size(); ++f) {
        signature.writes.push_back({Role::kField,
                                    static_cast<int>(f),
                                    options_.micro_sequences * BytesOf(model_.fields[f]),
                                    0,
                                    {Kind::kField, static_cast<int64_t>(f), i.micro_step}});
      }
      break;
    case Operation::kGatherParameters: {
      const Value value = {Kind::kParameter, i.unit, found.parameter_version};
      signature.reads.push_back(
          InShard({Role::kShard, 0, shard * element(), 0, value}, i.unit, element()));
      const Operand whole = {Role::kWhole, 0, (in_place ? shard : padded) * element(), 0, value};
      signature.writes.push_back(in_place ? InShard(whole, i.unit, element()) : whole);
      break;
    }
    case Operation::kForward:
      return Forward(i);
    case Operation::kBackward:
      return Backward(i);
    case Operation::kClearPadding:
      for (const ElementRange& range : PaddingOf(partitions_[i.unit])) {
        signature.writes.push_back({Role::kLeaf,
                                    0,
                                    (range.end - range.begin) * element(),
                                    range.begin * element(),
                                    {Kind::kLeaf, i.unit, i.micro_step}});
      }
      break;
    case Operation::kFoldContributions:
      for (int call : uses_.Of(i.unit, i.parameter)) {
        signature.reads.push_back({Role::kContribution,
                                   call,
                                   partitions_[i.unit].sizes[i.parameter] * kFloat,
                                   0,
                                   {Kind::kContribution, i.unit, i.parameter, call, i.micro_step}});
      }
      signature.writes.push_back(
          Slice(Role::kLeaf, i.unit, i.parameter, 0, {Kind::kLeaf, i.unit, i.micro_step}));
      break;
    case Operation::kRelease:
      signature.writes.push_back({Role::kWhole, 0, padded * element(), 0, {Kind::kNothing}});
      break;
    case Operation::kAccumulate:
      return Sum(i, /*own=*/true);
    case Operation::kExchange: {
      const bool partial = InsertionOf(options_, i).partial;
      const int64_t begin = i.reads.empty() ? 0 : i.reads[0].begin;
      const int64_t bytes = i.reads.empty() ? 0 : i.reads[0].bytes;
      const Value leaf =
          partial ? Value{Kind::kOwnSum, i.unit} : Value{Kind::kLeaf, i.unit, i.micro_step};
      signature.reads.push_back(
          InShard({Role::kLeaf, 0, bytes, begin, leaf}, i.unit, partial ? kFloat : element()));
      signature.writes.push_back({Role::kPieces,
                                  0,
                                  (options_.world - 1) * bytes,
                                  0,
                                  {Kind::kPieces, i.unit, i.micro_step, begin}});
      break;
    }
    case Operation::kSum:
      return Sum(i, /*own=*/false);
    case Operation::kGatherGradient:
      for (auto* side : {&signature.reads, &signature.writes}) {
        const Role role = side == &signature.reads ? Role::kShard : Role::kWhole;
        side->push_back(
            InShard({role, 0, shard * element(), 0, {Kind::kGradient, i.unit}}, i.unit, element()));
      }
      break;
    case Operation::kSquareNorm:
      return SquareNorm(i);
    case Operation::kReduceNorm: {
      const int64_t on_host = found.host_norm ? 1 : 0;
      const auto count = static_cast<int64_t>(norms_[on_host].size());
      signature.reads.push_back(
          {Role::kAccumulator, 0, sizeof(ExactSum), 0, {Kind::kNorm, count, on_host}});
      signature.writes.push_back(
          {Role::kAccumulator, 0, sizeof(ExactSum), 0, {Kind::kGlobalNorm, on_host}});
      break;
    }
    case Operation::kGatherLosses:
      // One read, of as many values as there are micro-steps.
      signature.reads.push_back({Role::kLoss, 0, steps * kDouble, 0, {Kind::kLoss, -1}});
      signature.writes.push_back(
          {Role::kWhole, 0, steps * options_.world * kDouble, 0, {Kind::kAllLosses}});
      break;
    case Operation::kClip:
      for (int64_t on_host : {0, 1}) {
        if (norms_[on_host].empty()) continue;
        signature.reads.push_back(
            {Role::kAccumulator, 0, sizeof(ExactSum), 0, {Kind::kGlobalNorm, on_host}});
      }
      signature.reads.push_back(
          {Role::kLoss, 0, steps * options_.world * kDouble, 0, {Kind::kAllLosses}});
      signature.writes.push_back({Role::kClip, 0, kDouble, 0, {Kind::kClip}});
      break;
    case Operation::kUpdate:
      return Update(i);
    case Operation::kReport:
      if (options_.kind == PlanOptions::Kind::kPredict) {
        signature.reads.push_back(
            {Role::kPrediction, 0, BytesOf(footprints_.back().output), 0, {Kind::kPrediction, 0}});
      } else {
        signature.reads.push_back(
            {Role::kLoss, 0, steps * options_.world * kDouble, 0, {Kind::kAllLosses}});
      }
      break;
    case Operation::kCopyIn:
    case Operation::kCopyOut:
    case Operation::kRead:
    case Operation::kWrite:
      TESSERA_CHECK(false, "a move takes what it finds");
  }
  return signature;
}

}  // namespace tessera
