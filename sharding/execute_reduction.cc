#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/exact_sum.h"
#include "kernels/adamw.h"
#include "kernels/ordered_sum.h"
#include "sharding/executor.h"

namespace tessera {

Executor::Work Executor::BindCollective(const Instruction& instruction) {
  const Access& read = instruction.reads[0];
  const Access& write = instruction.writes[0];
  std::byte* const from = At(read);
  // A gather in place names the others' shards; its output is the whole buffer.
  std::byte* const to = At(write);
  const int64_t bytes = read.bytes;
  Lane& lane = device_.lane(static_cast<int>(instruction.lane));
  std::function<absl::Status()> call;
  if (instruction.operation == Operation::kExchange) {
    const int64_t stride = plan_.buffers[read.buffer].shard_bytes;
    call = [this, &lane, from, to, stride, bytes] {
      return collectives_.AllToAll(lane, from, stride, to, bytes);
    };
  } else if (instruction.operation == Operation::kReduceNorm) {
    call = [this, &lane, from, to] {
      return collectives_.AllReduceSum(lane, reinterpret_cast<const int64_t*>(from),
                                       reinterpret_cast<int64_t*>(to), ExactSum::kWords);
    };
  } else {
    call = [this, &lane, from, to, bytes] { return collectives_.AllGather(lane, from, to, bytes); };
  }
  const bool control = instruction.operation == Operation::kReduceNorm ||
                       instruction.operation == Operation::kGatherLosses;
  return [this, call, control] {
    const int64_t before = collectives_.bytes_sent();
    absl::Status status = call();
    (control ? control_bytes_sent_ : bytes_sent_) += collectives_.bytes_sent() - before;
    return status;
  };
}

Executor::Work Executor::BindSum(const Instruction& instruction) {
  const Insertion insertion = InsertionOf(plan_.options, instruction);
  const DType leaf_type = insertion.partial ? DType::kFloat32 : model_.dtype;
  std::vector<Tensor> pieces = {View(instruction.reads[0], leaf_type)};
  std::vector<kernels::Slot> before, after;
  for (const Access& read : instruction.reads) {
    if (read.role == Role::kSlot) before.push_back({read.index, View(read, DType::kFloat32)});
    if (read.role != Role::kPieces) continue;
    // What came from the others stands in order of rank; the own piece goes between.
    const Tensor own = pieces[0];
    pieces.clear();
    std::byte* next = At(read);
    for (int rank = 0; rank < plan_.options.world; ++rank) {
      if (rank == rank_) {
        pieces.push_back(own);
      } else {
        pieces.push_back({next, leaf_type, own.shape});
        next += own.bytes();
      }
    }
  }
  Tensor total;
  for (const Access& write : instruction.writes) {
    if (write.role == Role::kSlot) after.push_back({write.index, View(write, DType::kFloat32)});
    if (write.role != Role::kTotal) continue;
    const int64_t elements = pieces[0].elements();
    total = View(write,
                 write.bytes == elements * SizeOf(model_.dtype) ? model_.dtype : DType::kFloat32);
  }
  Lane& lane = device_.lane(static_cast<int>(instruction.lane));
  return [&lane, insertion, pieces, before, after, total] {
    return kernels::AccumulateOrdered(
        lane, {insertion.leaves_before, insertion.group, pieces, before, after,
               total.data == nullptr ? nullptr : &total});
  };
}

// Puts the gathered losses, which stand by rank, in the order of the micro-batches
// and adds them in that order.
void Executor::CollectLosses(const double* all) {
  const int steps = plan_.options.accumulation;
  context_->losses.resize(static_cast<size_t>(steps) * plan_.options.world);
  for (int rank = 0; rank < plan_.options.world; ++rank) {
    for (int a = 0; a < steps; ++a) {
      context_->losses[plan_.MicroBatchOf(rank, a)] = all[rank * steps + a];
    }
  }
  double sum = 0;
  for (double loss : context_->losses) sum += loss;
  context_->loss = sum * context_->gradient_scale;
}

Executor::Work Executor::BindClip(const Instruction& instruction) {
  const auto* accumulator = reinterpret_cast<const ExactSum*>(At(instruction.reads[0]));
  const auto* losses = reinterpret_cast<const double*>(At(instruction.reads[1]));
  auto* factor = reinterpret_cast<double*>(At(instruction.writes[0]));
  return [this, accumulator, losses, factor] {
    CollectLosses(losses);
    context_->gradient_norm = std::sqrt(accumulator->Value());
    // Every rank sees all losses, and all agree on the one that has to report.
    int culprit = -1;
    absl::Status status;
    for (int rank = plan_.options.world - 1; rank >= 0; --rank) {
      for (int a = plan_.options.accumulation - 1; a >= 0; --a) {
        const int64_t m = plan_.MicroBatchOf(rank, a);
        if (std::isfinite(context_->losses[m])) continue;
        culprit = rank;
        status = absl::InvalidArgumentError(
            absl::StrCat("the loss of micro-batch ", m, " is ", context_->losses[m], " at step ",
                         context_->step + 1,
                         "; lower the learning rate, lengthen the warmup, or look at the data"));
      }
    }
    if (status.ok() && !std::isfinite(context_->gradient_norm)) {
      culprit = 0;
      status = absl::InvalidArgumentError(
          absl::StrCat("the gradient's norm is ", context_->gradient_norm, " at step ",
                       context_->step + 1, " while the loss is ", context_->loss,
                       "; lower the learning rate or lengthen the warmup"));
    }
    if (culprit >= 0 && culprit != rank_) {
      return absl::CancelledError(
          absl::StrCat("rank ", culprit, ": ", absl::string_view(status.message())));
    }
    TESSERA_RETURN_IF_ERROR(status);
    // PyTorch's clip_grad_norm_: the norm is enlarged a little against division by 0.
    *factor = context_->clip_norm > 0
                  ? std::min(1.0, context_->clip_norm / (context_->gradient_norm + 1e-6))
                  : 1.0;
    return absl::OkStatus();
  };
}

Executor::Work Executor::BindUpdate(const Instruction& instruction) {
  Tensor gradient, master, momentum, variance, parameter;
  const double* clip = nullptr;
  for (const Access& read : instruction.reads) {
    if (read.role == Role::kGradient) gradient = View(read, model_.dtype);
    if (read.role == Role::kClip) clip = reinterpret_cast<const double*>(At(read));
    if (read.role == Role::kMaster) master = View(read, DType::kFloat32);
    if (read.role == Role::kMomentum) momentum = View(read, DType::kFloat32);
    if (read.role == Role::kVariance) variance = View(read, DType::kFloat32);
  }
  for (const Access& write : instruction.writes) {
    if (write.role == Role::kParameter) parameter = View(write, model_.dtype);
  }
  // Each parameter's part of what this rank updates: decay differs between them.
  const UnitPartition& partition = plan_.partitions[instruction.unit];
  const int64_t elements = gradient.elements();
  const int64_t first = elements == partition.padded ? 0 : rank_ * partition.shard;
  struct Part {
    int64_t begin, count;
    bool decay;
  };
  std::vector<Part> parts;
  for (size_t p = 0; p < partition.offsets.size(); ++p) {
    const int64_t begin = std::max(partition.offsets[p] - first, int64_t{0});
    const int64_t end = std::min(partition.offsets[p] + partition.sizes[p] - first, elements);
    if (begin >= end) continue;
    parts.push_back({begin, end - begin, model_.units[instruction.unit].parameters[p].decay});
  }
  Lane& lane = device_.lane(static_cast<int>(instruction.lane));
  return [this, &lane, gradient, master, momentum, variance, parameter, clip, parts] {
    if (context_->warm_up) return absl::OkStatus();
    const auto part_of = [](const Tensor& tensor, const Part& part) {
      auto* data = static_cast<std::byte*>(tensor.data) + part.begin * SizeOf(tensor.dtype);
      return Tensor{data, tensor.dtype, {part.count}};
    };
    for (const Part& part : parts) {
      Tensor copy;
      if (parameter.data != nullptr) copy = part_of(parameter, part);
      TESSERA_RETURN_IF_ERROR(kernels::AdamW(
          lane, part.decay ? context_->decayed : context_->undecayed, part_of(gradient, part), clip,
          part_of(master, part), part_of(momentum, part), part_of(variance, part),
          parameter.data != nullptr ? &copy : nullptr));
    }
    return absl::OkStatus();
  };
}

Executor::Work Executor::BindReport(const Instruction& instruction) {
  if (plan_.options.kind == PlanOptions::Kind::kPredict) return [] { return absl::OkStatus(); };
  const auto* losses = reinterpret_cast<const double*>(At(instruction.reads[0]));
  return [this, losses] {
    CollectLosses(losses);
    return absl::OkStatus();
  };
}

}  // namespace tessera
