#include "core/exact_sum.h"
#include "sharding/builder.h"

namespace tessera {
namespace {

constexpr int64_t kScalar = SizeOf(DType::kFloat64);

}  // namespace

// Of a gradient that is on its way off the device: the sum of all such is the host's.
void Builder::HostSquareNorm(int unit, int gradient) {
  const bool first = host_accumulator_ < 0;
  if (first) {
    host_accumulator_ =
        AddBufferIn(Tier::kHost, "host_square_sum", Category::kWorkspace, sizeof(ExactSum));
  }
  Instruction& norm = Add(Operation::kSquareNorm, LaneKind::kHostCompute);
  norm.unit = unit;
  norm.reads.push_back(Own(Role::kGradient, gradient));
  if (!first) norm.reads.push_back(Whole(Role::kAccumulator, host_accumulator_));
  norm.writes.push_back(Whole(Role::kAccumulator, host_accumulator_));
}

// Norm, clip factor and loss.
void Builder::FinishStep() {
  const int all_losses = AddBufferIn(Tier::kHost, "all_losses", Category::kCommunication,
                                     kScalar * options_.world * options_.accumulation);
  clip_ = AddBufferIn(Tier::kHost, "clip", Category::kWorkspace, kScalar);
  Instruction& losses = Add(Operation::kGatherLosses, LaneKind::kCommunication);
  losses.reads.push_back(Whole(Role::kLoss, losses_));
  losses.writes.push_back(Whole(Role::kWhole, all_losses));

  int accumulator = -1;
  for (int u = 0; u < units(); ++u) {
    if (empty(u) || layout_.GradientOf(u) != Tier::kDevice) continue;
    const bool first = accumulator < 0;
    if (first) accumulator = AddBuffer("square_sum", Category::kWorkspace, sizeof(ExactSum));
    Instruction& norm = Add(Operation::kSquareNorm, LaneKind::kCompute);
    norm.unit = u;
    norm.reads.push_back(Own(Role::kGradient, gradients_[u]));
    if (!first) norm.reads.push_back(Whole(Role::kAccumulator, accumulator));
    norm.writes.push_back(Whole(Role::kAccumulator, accumulator));
  }

  std::vector<Access> sums;
  for (const int own : {accumulator, host_accumulator_}) {
    if (own < 0) continue;
    const int global = AddBufferIn(Tier::kHost, "global_" + plan_.buffers[own].name,
                                   Category::kCommunication, sizeof(ExactSum));
    Instruction& reduce = Add(Operation::kReduceNorm, LaneKind::kCommunication);
    reduce.reads.push_back(Whole(Role::kAccumulator, own));
    reduce.writes.push_back(Whole(Role::kAccumulator, global));
    sums.push_back(Whole(Role::kAccumulator, global));
  }
  Instruction& clip = Add(Operation::kClip, LaneKind::kHost);
  clip.reads = sums;
  clip.reads.push_back(Whole(Role::kLoss, all_losses));
  clip.writes.push_back(Whole(Role::kClip, clip_));
}

void Builder::FinishForward() {
  if (options_.kind == PlanOptions::Kind::kPredict) {
    Instruction& report = Add(Operation::kReport, LaneKind::kHost);
    report.reads.push_back(Whole(Role::kPrediction, prediction_));
    return;
  }
  const int all_losses = AddBufferIn(Tier::kHost, "all_losses", Category::kCommunication,
                                     kScalar * options_.world * options_.accumulation);
  Instruction& losses = Add(Operation::kGatherLosses, LaneKind::kCommunication);
  losses.reads.push_back(Whole(Role::kLoss, losses_));
  losses.writes.push_back(Whole(Role::kWhole, all_losses));
  Instruction& report = Add(Operation::kReport, LaneKind::kHost);
  report.reads.push_back(Whole(Role::kLoss, all_losses));
}

}  // namespace tessera
