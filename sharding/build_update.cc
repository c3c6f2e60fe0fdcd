#include "core/exact_sum.h"
#include "sharding/builder.h"

namespace tessera {
namespace {

constexpr int64_t kScalar = SizeOf(DType::kFloat64);

}  // namespace

// Norm, clip factor and loss; then the update of every unit, and what the next
// step wants gathered.
void Builder::FinishTraining() {
  const int accumulator = AddBuffer("square_sum", Category::kWorkspace, sizeof(ExactSum));
  const int global = AddHostBuffer("global_square_sum", Category::kCommunication, sizeof(ExactSum));
  const int all_losses = AddHostBuffer("all_losses", Category::kCommunication,
                                       kScalar * options_.world * options_.accumulation);
  const int clip = AddHostBuffer("clip", Category::kWorkspace, kScalar);

  Instruction& losses = Add(Operation::kGatherLosses, LaneKind::kCommunication);
  losses.reads.push_back(Whole(Role::kLoss, losses_));
  losses.writes.push_back(Whole(Role::kWhole, all_losses));

  bool first = true;
  for (int u = 0; u < units(); ++u) {
    if (empty(u)) continue;
    Instruction& norm = Add(Operation::kSquareNorm, LaneKind::kCompute);
    norm.unit = u;
    norm.reads.push_back(Own(Role::kGradient, gradients_[u]));
    if (!first) norm.reads.push_back(Whole(Role::kAccumulator, accumulator));
    norm.writes.push_back(Whole(Role::kAccumulator, accumulator));
    first = false;
  }
  Instruction& reduce = Add(Operation::kReduceNorm, LaneKind::kCommunication);
  reduce.reads.push_back(Whole(Role::kAccumulator, accumulator));
  reduce.writes.push_back(Whole(Role::kAccumulator, global));

  Instruction& clip_instruction = Add(Operation::kClip, LaneKind::kHost);
  clip_instruction.reads.push_back(Whole(Role::kAccumulator, global));
  clip_instruction.reads.push_back(Whole(Role::kLoss, all_losses));
  clip_instruction.writes.push_back(Whole(Role::kClip, clip));

  for (int u = 0; u < units(); ++u) {
    if (empty(u)) continue;
    const auto part = [&](Role role, int buffer) {
      return optimizer_sharded() ? Own(role, buffer) : Whole(role, buffer);
    };
    Instruction& update = Add(Operation::kUpdate, LaneKind::kCompute);
    update.unit = u;
    update.reads.push_back(part(Role::kGradient, gradients_[u]));
    update.reads.push_back(Whole(Role::kClip, clip));
    update.writes.push_back(has_master() ? Whole(Role::kMaster, masters_[u])
                                         : part(Role::kMaster, parameters_[u]));
    update.writes.push_back(Whole(Role::kMomentum, momenta_[u]));
    update.writes.push_back(Whole(Role::kVariance, variances_[u]));
    update.reads.insert(update.reads.end(), update.writes.begin(), update.writes.end());
    if (has_master()) update.writes.push_back(part(Role::kParameter, parameters_[u]));
    if (optimizer_sharded() && !parameters_sharded()) {
      Instruction& gather = Add(Operation::kGatherParameters, LaneKind::kCommunication);
      gather.unit = u;
      gather.reads.push_back(Own(Role::kShard, parameters_[u]));
      gather.writes.push_back(Others(Role::kWhole, parameters_[u]));
    }
  }
}

void Builder::FinishForward() {
  if (options_.kind == PlanOptions::Kind::kPredict) {
    Instruction& report = Add(Operation::kReport, LaneKind::kHost);
    report.reads.push_back(Whole(Role::kPrediction, prediction_));
    return;
  }
  const int all_losses = AddHostBuffer("all_losses", Category::kCommunication,
                                       kScalar * options_.world * options_.accumulation);
  Instruction& losses = Add(Operation::kGatherLosses, LaneKind::kCommunication);
  losses.reads.push_back(Whole(Role::kLoss, losses_));
  losses.writes.push_back(Whole(Role::kWhole, all_losses));
  Instruction& report = Add(Operation::kReport, LaneKind::kHost);
  report.reads.push_back(Whole(Role::kLoss, all_losses));
}

}  // namespace tessera
