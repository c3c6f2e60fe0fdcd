#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/exact_sum.h"
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
  Lane& lane = KernelLane(instruction);
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
  std::vector<const ExactSum*> sums;
  for (const Access& read : instruction.reads) {
    if (read.role == Role::kAccumulator) {
      sums.push_back(reinterpret_cast<const ExactSum*>(At(read)));
    }
  }
  const auto* losses = reinterpret_cast<const double*>(At(instruction.reads.back()));
  auto* factor = reinterpret_cast<double*>(At(instruction.writes[0]));
  return [this, sums, losses, factor] {
    CollectLosses(losses);
    ExactSum squares;
    for (const ExactSum* sum : sums) squares.Merge(*sum);
    context_->gradient_norm = std::sqrt(squares.Value());
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

Executor::Work Executor::BindReport(const Instruction& instruction) {
  if (plan_.options.kind == PlanOptions::Kind::kPredict) return [] { return absl::OkStatus(); };
  const auto* losses = reinterpret_cast<const double*>(At(instruction.reads[0]));
  return [this, losses] {
    CollectLosses(losses);
    return absl::OkStatus();
  };
}

}  // namespace tessera
