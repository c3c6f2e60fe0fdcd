#include "sharding/executor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/elementwise.h"
#include "kernels/square_norm.h"

namespace tessera {

Executor::Executor(const Plan& plan, const Model& model, int rank, Device& device,
                   Collectives& collectives, const Arenas& arenas)
    : plan_(plan),
      model_(model),
      rank_(rank),
      device_(device),
      collectives_(collectives),
      arenas_(arenas),
      events_(plan.instructions.size()),
      timings_(plan.instructions.size()) {
  for (const Call& call : model.calls) {
    footprints_.push_back(call.module->Measure(plan.options.micro_sequences));
  }
  if (plan.options.kind == PlanOptions::Kind::kPredict) {
    footprints_.back() = model.predictor->Measure(plan.options.micro_sequences);
  }
  for (const Instruction& instruction : plan.instructions) {
    work_.push_back([this, &instruction, work = Bind(instruction)] {
      absl::Status status = work();
      // A library's or a device's failure says what was called, not for what.
      if (!absl::IsInternal(status)) return status;
      return absl::InternalError(absl::StrCat(absl::string_view(status.message()), "; in the ",
                                              NameOf(instruction.lane),
                                              " lane: ", ShortName(model_, instruction)));
    });
    for (int wait : instruction.waits) {
      if (events_[wait] == nullptr) events_[wait] = device.CreateEvent();
    }
  }
}

absl::Status Executor::Run(StepContext* context) {
  context_ = context;
  bytes_sent_ = control_bytes_sent_ = 0;
  traffic_ = {};
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const Instruction& instruction = plan_.instructions[i];
    Lane& lane = device_.lane(static_cast<int>(instruction.lane));
    for (int wait : instruction.waits) lane.Wait(*events_[wait]);
    lane.Stamp(&timings_[i].begin);
    if (IsHostLane(instruction.lane)) {
      lane.EnqueueHost(work_[i]);
    } else {
      lane.Enqueue(work_[i]);
    }
    lane.Stamp(&timings_[i].end);
    if (events_[i] != nullptr) lane.Record(*events_[i]);
  }
  absl::Status status = device_.Join();
  double start = timings_[0].begin;
  for (const Timing& timing : timings_) start = std::min(start, timing.begin);
  for (Timing& timing : timings_) timing = {timing.begin - start, timing.end - start};
  return status;
}

double Executor::exposed_communication_seconds() const {
  double exposed = 0;
  double free_since = 0;  // when the compute lane ended its latest instruction
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    const Instruction& instruction = plan_.instructions[i];
    if (instruction.lane != LaneKind::kCompute) continue;
    for (int wait : instruction.waits) {
      if (plan_.instructions[wait].lane != LaneKind::kCommunication) continue;
      exposed += std::max(0.0, timings_[wait].end - free_since);
      free_since = std::max(free_since, timings_[wait].end);
    }
    free_since = timings_[i].end;
  }
  for (size_t i = 0; i < plan_.instructions.size(); ++i) {
    if (plan_.instructions[i].lane != LaneKind::kCommunication) continue;
    exposed += std::max(0.0, timings_[i].end - free_since);
    free_since = std::max(free_since, timings_[i].end);
  }
  return exposed;
}

Tensor Executor::prediction() const {
  const Instruction& report = plan_.instructions.back();
  return View(report.reads[0], footprints_.back().output, 0);
}

Lane& Executor::KernelLane(const Instruction& instruction) {
  return IsHostLane(instruction.lane) ? device_.host_lane()
                                      : device_.lane(static_cast<int>(instruction.lane));
}

int64_t Executor::OffsetOf(const Access& access) const {
  const Buffer& buffer = plan_.buffers[access.buffer];
  const int64_t shard = access.scope == Scope::kOwn ? rank_ * buffer.shard_bytes : 0;
  return buffer.offset + shard + access.begin;
}

std::byte* Executor::At(const Access& access) const {
  return arenas_.Of(plan_.buffers[access.buffer].tier) + OffsetOf(access);
}

Tensor Executor::View(const Access& access, DType dtype) const {
  return {At(access), dtype, {access.bytes / SizeOf(dtype)}};
}

// `sequences` is put in front of the spec's shape, if it is not 0.
Tensor Executor::View(const Access& access, const TensorSpec& spec, int64_t sequences) const {
  Tensor tensor = {At(access), spec.dtype, spec.shape};
  if (sequences > 0) tensor.shape.insert(tensor.shape.begin(), sequences);
  TESSERA_CHECK(tensor.bytes() == access.bytes, spec.name);
  return tensor;
}

Executor::Work Executor::Bind(const Instruction& instruction) {
  Lane& lane = KernelLane(instruction);
  switch (instruction.operation) {
    case Operation::kStageBatch:
      return BindStageBatch(instruction);
    case Operation::kForward:
      return BindForward(instruction);
    case Operation::kBackward:
      return BindBackward(instruction);
    case Operation::kGatherParameters:
    case Operation::kGatherGradient:
    case Operation::kGatherLosses:
    case Operation::kExchange:
    case Operation::kReduceNorm:
      return BindCollective(instruction);
    case Operation::kAccumulate:
    case Operation::kSum:
      return BindSum(instruction);
    case Operation::kClip:
      return BindClip(instruction);
    case Operation::kUpdate:
      return BindUpdate(instruction);
    case Operation::kReport:
      return BindReport(instruction);
    case Operation::kCopyIn:
    case Operation::kCopyOut:
      return BindCopy(instruction);
    case Operation::kRead:
    case Operation::kWrite:
      return BindTransfer(instruction);
    case Operation::kRelease:
      return [] { return absl::OkStatus(); };
    case Operation::kClearPadding: {
      std::vector<Tensor> ranges;
      for (const Access& write : instruction.writes) ranges.push_back(View(write, model_.dtype));
      return [&lane, ranges] {
        for (const Tensor& range : ranges) {
          TESSERA_RETURN_IF_ERROR(kernels::FillZero(lane, range));
        }
        return absl::OkStatus();
      };
    }
    case Operation::kFoldContributions: {
      std::vector<Tensor> contributions;
      for (const Access& read : instruction.reads) {
        contributions.push_back(View(read, DType::kFloat32));
      }
      const Tensor leaf = View(instruction.writes[0], model_.dtype);
      return [&lane, contributions, leaf] {
        return kernels::SumContributions(lane, contributions, leaf);
      };
    }
    case Operation::kSquareNorm: {
      const Tensor gradient = View(instruction.reads[0], model_.dtype);
      const Tensor accumulator = View(instruction.writes[0], DType::kInt64);
      const bool add = instruction.reads.size() > 1;
      return [&lane, gradient, accumulator, add] {
        return kernels::SquareNorm(lane, gradient, accumulator, add);
      };
    }
  }
  TESSERA_CHECK(false, "no such operation");
}

}  // namespace tessera
