#include <algorithm>

#include "absl/strings/str_cat.h"
#include "sharding/builder.h"

namespace tessera {
// Reads all of the step's data ahead: tokens are small.
void Builder::StageBatches() {
  for (int a = 0; a < options_.accumulation; ++a) {
    std::vector<int>& fields = fields_.emplace_back();
    for (const TensorSpec& field : model_.fields) {
      fields.push_back(AddBufferIn(Tier::kHost, absl::StrCat("field.", field.name, ".", a),
                                   Category::kActivations,
                                   options_.micro_sequences * BytesOf(field)));
    }
    Instruction& stage = Add(Operation::kStageBatch, LaneKind::kHost);
    stage.micro_step = a;
    for (size_t f = 0; f < fields.size(); ++f) {
      stage.writes.push_back(Whole(Role::kField, fields[f], static_cast<int>(f)));
    }
  }
  const int64_t losses = options_.accumulation * SizeOf(DType::kFloat64);
  losses_ = AddBufferIn(Tier::kHost, "losses", Category::kActivations, losses);
}

// Brings units to where they are whole: from where they live in, and at stage 3
// together. Nothing earlier than planned, or memory would be held for longer.
void Builder::Gathers(int position) {
  for (; next_span_ < spans_.size() && spans_[next_span_].issue <= position; ++next_span_) {
    const int unit = spans_[next_span_].unit;
    const std::string name = absl::StrCat(model_.units[unit].name, ".", next_span_);
    const int buffer = AddBuffer(absl::StrCat("gathered.", name), Category::kCommunication,
                                 partition(unit).padded * element());
    gathered_.push_back(buffer);
    if (empty(unit)) continue;
    const int after = LastCompute();
    int shard = parameters_[unit];
    if (layout_.ParametersOf(unit) != Tier::kDevice) {
      if (parameters_sharded()) {
        shard = AddBuffer(absl::StrCat("shard.", name), Category::kCommunication,
                          plan_.buffers[shard].bytes);
      }
      CopyIn({.unit = unit}, parameters_[unit], parameters_sharded() ? shard : buffer, after);
    }
    if (!parameters_sharded()) continue;
    Instruction& gather = Add(Operation::kGatherParameters, LaneKind::kCommunication);
    gather.unit = unit;
    if (after >= 0) gather.waits.push_back(after);
    gather.reads.push_back(Whole(Role::kShard, shard));
    gather.writes.push_back(Whole(Role::kWhole, buffer));
  }
  for (size_t s = 0; s < next_span_; ++s) {
    if (spans_[s].first == position) whole_[spans_[s].unit] = gathered_[s];
  }
}

void Builder::Releases(int position) {
  for (const Span& span : spans_) {
    if (span.last != position || empty(span.unit)) continue;
    if (parameters_sharded()) {
      Instruction& release = Add(Operation::kRelease, LaneKind::kCompute);
      release.unit = span.unit;
      release.writes.push_back(Whole(Role::kWhole, whole_[span.unit]));
    }
    whole_[span.unit] = parameters_[span.unit];
  }
}

void Builder::AddFields(const Position& at, Instruction* instruction) const {
  const std::vector<int>& fields = fields_[at.micro_step];
  for (size_t f = 0; f < fields.size(); ++f) {
    instruction->reads.push_back(Whole(Role::kField, fields[f], static_cast<int>(f)));
  }
}

void Builder::AddParameters(const Position& at, Instruction* instruction) const {
  const std::vector<ParameterUse>& uses = model_.calls[at.call].uses;
  for (size_t i = 0; i < uses.size(); ++i) {
    instruction->reads.push_back(Slice(Role::kParameter, whole_[uses[i].unit], uses[i].unit,
                                       uses[i].parameter, element(), static_cast<int>(i)));
  }
}

Access Builder::Loss(const Position& at) const {
  const int64_t size = SizeOf(DType::kFloat64);
  return {Role::kLoss, losses_, at.micro_step * size, size};
}

void Builder::Forward(const Position& at, bool recompute) {
  const Call& call = model_.calls[at.call];
  const Footprint& footprint = footprints_[at.call];
  const bool last = model_.IsLast(at.call);
  const bool predicts = last && options_.kind == PlanOptions::Kind::kPredict;

  Instruction forward;
  forward.operation = Operation::kForward;
  forward.lane = LaneKind::kCompute;
  forward.call = at.call;
  forward.micro_step = at.micro_step;
  forward.recompute = recompute;
  AddFields(at, &forward);
  if (at.call > 0) forward.reads.push_back(Whole(Role::kInput, hidden_[at.call - 1]));
  AddParameters(at, &forward);

  if (train()) {
    int64_t bytes = 0;
    for (const TensorSpec& spec : footprint.saved) bytes += Aligned(BytesOf(spec));
    const int saved =
        AddBuffer(absl::StrCat(recompute ? "recomputed." : "saved.", call.name, ".", at.micro_step),
                  Category::kActivations, bytes);
    int64_t offset = 0;
    for (size_t s = 0; s < footprint.saved.size(); ++s) {
      const int64_t size = BytesOf(footprint.saved[s]);
      forward.writes.push_back(
          {Role::kSaved, saved, offset, size, Scope::kRange, static_cast<int>(s)});
      offset += Aligned(size);
    }
    saved_[at.call] = saved;
  }
  if (predicts) {
    prediction_ =
        AddBufferIn(Tier::kHost, "prediction", Category::kActivations, BytesOf(footprint.output));
    forward.writes.push_back(Whole(Role::kPrediction, prediction_));
  } else if (last) {
    forward.writes.push_back(Loss(at));
  } else if (!recompute) {
    hidden_[at.call] = AddBuffer(absl::StrCat("hidden.", call.name, ".", at.micro_step),
                                 Category::kActivations, BytesOf(footprint.output));
    forward.writes.push_back(Whole(Role::kOutput, hidden_[at.call]));
  }
  if (footprint.forward_workspace > 0) {
    forward.writes.push_back(
        Whole(Role::kWorkspace, AddBuffer(absl::StrCat("workspace.", plan_.instructions.size()),
                                          Category::kWorkspace, footprint.forward_workspace)));
  }
  plan_.instructions.push_back(std::move(forward));
}

void Builder::Backward(const Position& at) {
  const Call& call = model_.calls[at.call];
  const Footprint& footprint = footprints_[at.call];
  Instruction backward;
  backward.operation = Operation::kBackward;
  backward.lane = LaneKind::kCompute;
  backward.call = at.call;
  backward.micro_step = at.micro_step;
  AddFields(at, &backward);
  if (at.call > 0) backward.reads.push_back(Whole(Role::kInput, hidden_[at.call - 1]));
  if (call.backward_reads_parameters) AddParameters(at, &backward);
  int64_t offset = 0;
  for (size_t s = 0; s < footprint.saved.size(); ++s) {
    const int64_t size = BytesOf(footprint.saved[s]);
    backward.reads.push_back(
        {Role::kSaved, saved_[at.call], offset, size, Scope::kRange, static_cast<int>(s)});
    offset += Aligned(size);
  }
  if (model_.IsLast(at.call)) {
    backward.writes.push_back(Loss(at));
  } else {
    backward.reads.push_back(Whole(Role::kOutputGradient, hidden_gradient_));
  }
  AddGradientWrites(at, &backward);
  if (at.call > 0) {
    hidden_gradient_ = AddBuffer(
        absl::StrCat("hidden_gradient.", model_.calls[at.call - 1].name, ".", at.micro_step),
        Category::kActivations, plan_.buffers[hidden_[at.call - 1]].bytes);
    backward.writes.push_back(Whole(Role::kInputGradient, hidden_gradient_));
  }
  if (footprint.backward_workspace > 0) {
    backward.writes.push_back(
        Whole(Role::kWorkspace, AddBuffer(absl::StrCat("workspace.", plan_.instructions.size()),
                                          Category::kWorkspace, footprint.backward_workspace)));
  }
  plan_.instructions.push_back(std::move(backward));
}

}  // namespace tessera
