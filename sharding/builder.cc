#include "sharding/builder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sharding/build.h"

namespace tessera {
namespace {

absl::Status CheckOptions(const PlanOptions& options) {
  const auto positive = [](absl::string_view name, int64_t value) {
    if (value >= 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it must be at least 1"));
  };
  TESSERA_RETURN_IF_ERROR(positive("world", options.world));
  TESSERA_RETURN_IF_ERROR(positive("micro_sequences", options.micro_sequences));
  TESSERA_RETURN_IF_ERROR(positive("accumulation", options.accumulation));
  TESSERA_RETURN_IF_ERROR(positive("sum_group", options.sum_group));
  TESSERA_RETURN_IF_ERROR(positive("bucket_bytes", options.bucket_bytes));
  if (options.tile_elements < 1 || options.tile_elements % kTileAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tile_elements is ", options.tile_elements,
                                                   "; it must be a multiple of ", kTileAlignment));
  }
  absl::Status status;
  ForEachPlacement(options.offload, [&](absl::string_view name, const Placement& placement) {
    if (!status.ok() || (placement.fraction >= 0 && placement.fraction <= 1)) return;
    status = absl::InvalidArgumentError(absl::StrCat(
        "offload.", name, ".fraction is ", placement.fraction, "; it must be between 0 and 1"));
  });
  TESSERA_RETURN_IF_ERROR(status);
  if (options.prefetch < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("prefetch is ", options.prefetch, "; it must not be negative"));
  }
  if (options.stage < 0 || options.stage > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("stage is ", options.stage, "; it must be 0, 1, 2 or 3"));
  }
  return absl::OkStatus();
}

absl::string_view NameOfState(Role role) {
  switch (role) {
    case Role::kMaster:
      return "master";
    case Role::kMomentum:
      return "momentum";
    case Role::kVariance:
      return "variance";
    default:
      return "parameters";
  }
}

}  // namespace

absl::StatusOr<Plan> ListPlan(const Model& model, const PlanOptions& options) {
  TESSERA_RETURN_IF_ERROR(CheckOptions(options));
  TESSERA_RETURN_IF_ERROR(Uses::Check(model));
  if (options.kind == PlanOptions::Kind::kPredict && model.predictor == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("model ", model.name, " has no predictor; set Model::predictor"));
  }
  const Call& last = model.calls.back();
  if (!last.module->Measure(options.micro_sequences).saved.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("call ", last.name, " is the last of model ", model.name,
                     ", which runs backward alone; let it save nothing"));
  }
  std::vector<UnitPartition> partitions;
  int64_t elements = 0;
  for (const UnitSpec& unit : model.units) {
    TESSERA_ASSIGN_OR_RETURN(UnitPartition partition, PartitionUnit(unit, options.world));
    elements += partition.elements;
    partitions.push_back(std::move(partition));
  }
  if (elements == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model ", model.name, " has no parameter elements; give it something to train"));
  }
  return Builder(model, options, std::move(partitions)).Build();
}

absl::StatusOr<Plan> BuildPlan(const Model& model, const PlanOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(Plan plan, ListPlan(model, options));
  Order(&plan);
  Place(&plan);
  return plan;
}

Builder::Builder(const Model& model, const PlanOptions& options,
                 std::vector<UnitPartition> partitions)
    : model_(model), options_(options), uses_(model), layout_(model, options, partitions) {
  plan_.options = options;
  plan_.partitions = std::move(partitions);
  for (const Call& call : model.calls) {
    footprints_.push_back(call.module->Measure(options.micro_sequences));
  }
  if (options.kind == PlanOptions::Kind::kPredict) {
    footprints_.back() = model.predictor->Measure(options.micro_sequences);
  }
  sequence_ = SequenceOf(model, options);
  std::vector<bool> arrives(model.units.size());
  for (int u = 0; u < units(); ++u) arrives[u] = Arrives(u);
  spans_ = GatherSpans(model, uses_, sequence_, options, arrives);
  hidden_.assign(model.calls.size(), -1);
  kept_.assign(model.calls.size(), -1);
  saved_.assign(model.calls.size(), -1);
}

Plan Builder::Build() {
  AddState();
  AddSnapshot();
  StageBatches();
  for (size_t p = 0; p < sequence_.size(); ++p) {
    const Position& at = sequence_[p];
    Gathers(static_cast<int>(p));
    ReturnInputs(static_cast<int>(p));
    if (p == 0 || sequence_[p - 1].micro_step != at.micro_step) {
      leaf_.assign(model_.units.size(), -1);
    }
    if (at.backward) {
      if (Recomputes(at.call)) Forward(at, /*recompute=*/true);
      Backward(at);
    } else {
      Forward(at, /*recompute=*/false);
      KeepInput(at);
    }
    Releases(static_cast<int>(p));
    if (at.backward) FoldAndReduce(at);
  }
  if (train()) {
    FinishStep();
    for (int u = 0; u < units(); ++u) {
      if (!empty(u)) Update(u);
    }
  } else {
    FinishForward();
  }
  return std::move(plan_);
}

int Builder::AddBuffer(std::string name, Category category, int64_t bytes, int64_t shard_bytes,
                       bool persistent) {
  Buffer buffer;
  buffer.name = std::move(name);
  buffer.category = category;
  buffer.bytes = bytes;
  buffer.shard_bytes = shard_bytes;
  buffer.persistent = persistent;
  plan_.buffers.push_back(std::move(buffer));
  return static_cast<int>(plan_.buffers.size()) - 1;
}

int Builder::AddBufferIn(Tier tier, std::string name, Category category, int64_t bytes) {
  const int buffer = AddBuffer(std::move(name), category, bytes);
  plan_.buffers[buffer].tier = tier;
  return buffer;
}

Instruction& Builder::Add(Operation operation, LaneKind lane) {
  Instruction& instruction = plan_.instructions.emplace_back();
  instruction.operation = operation;
  instruction.lane = lane;
  return instruction;
}

// The latest compute instruction so far, or -1.
int Builder::LastCompute() const {
  int last = static_cast<int>(plan_.instructions.size()) - 1;
  while (last >= 0 && plan_.instructions[last].lane != LaneKind::kCompute) --last;
  return last;
}

Access Builder::Whole(Role role, int buffer, int index) const {
  return {role, buffer, 0, plan_.buffers[buffer].bytes, Scope::kRange, index};
}

// This rank's shard; the whole of a buffer that is not cut into shards.
Access Builder::Own(Role role, int buffer) const {
  if (plan_.buffers[buffer].shard_bytes == 0) return Whole(role, buffer);
  return {role, buffer, 0, plan_.buffers[buffer].shard_bytes, Scope::kOwn};
}

Access Builder::Others(Role role, int buffer) const {
  return {role, buffer, 0, plan_.buffers[buffer].shard_bytes, Scope::kOthers};
}

Access Builder::Part(Role role, int buffer, int64_t first, int64_t elements,
                     int64_t element_bytes) const {
  const bool own = optimizer_sharded() && plan_.buffers[buffer].shard_bytes > 0;
  return {role, buffer, first * element_bytes, elements * element_bytes,
          own ? Scope::kOwn : Scope::kRange};
}

Access Builder::Slice(Role role, int buffer, int unit, int parameter, int64_t element_bytes,
                      int index) const {
  const UnitPartition& unit_partition = partition(unit);
  return {role,
          buffer,
          unit_partition.offsets[parameter] * element_bytes,
          unit_partition.sizes[parameter] * element_bytes,
          Scope::kRange,
          index};
}

// What a rank saves of the state is copied there between two steps, and written from
// there during the next ones: no instruction touches it.
void Builder::AddSnapshot() {
  if (!options_.snapshot) return;
  int64_t elements = 0;
  for (int u = 0; u < units(); ++u) elements += partition(u).shard;
  constexpr int64_t kStates = 3;  // master weights and two moments
  const int buffer =
      AddBufferIn(Tier::kHost, std::string(kSnapshotBuffer), Category::kSnapshot,
                  kStates * elements * static_cast<int64_t>(SizeOf(DType::kFloat32)));
  plan_.buffers[buffer].persistent = true;
}

void Builder::AddState() {
  plan_.state = layout_.state();
  parameters_.resize(model_.units.size());
  device_state_.resize(model_.units.size());
  offloaded_state_.resize(model_.units.size());
  for (StatePart& part : plan_.state) {
    const UnitPartition& p = partition(part.unit);
    const bool is_parameter = part.role == Role::kParameter;
    const int64_t size = is_parameter ? element() : SizeOf(DType::kFloat32);
    const absl::string_view place = part.tier == Tier::kDevice ? "" : NameOf(part.tier);
    part.buffer = AddBufferIn(part.tier,
                              absl::StrCat(NameOfState(part.role), place.empty() ? "" : "_", place,
                                           ".", model_.units[part.unit].name),
                              is_parameter ? Category::kParameters : Category::kOptimizer,
                              part.elements * size);
    Buffer& buffer = plan_.buffers[part.buffer];
    buffer.persistent = true;
    if (is_parameter) {
      parameters_[part.unit] = part.buffer;
      const bool in_shards = part.tier == Tier::kDevice && !parameters_sharded() && !alone();
      if (in_shards) buffer.shard_bytes = p.shard * size;
      continue;
    }
    const bool on_device = part.first < layout_.DeviceElements(part.unit);
    OptimizerState& state = (on_device ? device_state_ : offloaded_state_)[part.unit];
    (part.role == Role::kMaster     ? state.master
     : part.role == Role::kMomentum ? state.momentum
                                    : state.variance) = part.buffer;
  }
  if (options_.library_workspace_bytes > 0) {
    AddBuffer(std::string(kLibraryWorkspace), Category::kWorkspace,
              options_.library_workspace_bytes, 0, true);
  }
  whole_ = parameters_;
  if (!train()) return;
  gradient_home_.assign(model_.units.size(), -1);
  updated_.assign(model_.units.size(), -1);
  for (int u = 0; u < units(); ++u) {
    const UnitPartition& p = partition(u);
    if (layout_.SumsOnHost(u)) {
      gradients_.push_back(-1);
      continue;
    }
    gradients_.push_back(AddBuffer(absl::StrCat("gradient.", model_.units[u].name),
                                   Category::kGradients,
                                   (gradients_sharded() ? p.shard : p.padded) * element(),
                                   gradients_sharded() || alone() ? 0 : p.shard * element()));
  }
}

}  // namespace tessera
