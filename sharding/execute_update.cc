#include <algorithm>

#include "kernels/adamw.h"
#include "kernels/copy.h"
#include "sharding/executor.h"

namespace tessera {

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
  // Each parameter's part of what this rank updates: decay differs between them. The
  // padding behind one is updated too, and stays zero: so it is in every copy of them.
  const UnitPartition& partition = plan_.partitions[instruction.unit];
  const int64_t elements = instruction.elements;
  const int64_t first = instruction.first + plan_.HeldFrom(Role::kMaster, instruction.unit, rank_);
  struct Part {
    int64_t begin, count;
    bool decay;
  };
  std::vector<Part> parts;
  for (size_t p = 0; p < partition.offsets.size(); ++p) {
    const int64_t begin = std::max(partition.offsets[p] - first, int64_t{0});
    const bool last = p + 1 == partition.offsets.size();
    const int64_t next = last ? partition.padded : partition.offsets[p + 1];
    const int64_t end = std::min(next - first, elements);
    if (begin >= end) continue;
    parts.push_back({begin, end - begin, model_.units[instruction.unit].parameters[p].decay});
  }
  Lane& lane = KernelLane(instruction);
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

// A run that updates nothing leaves what lives across steps alone.
bool Executor::IsLeftAlone(const Instruction& move) const {
  return context_->warm_up && plan_.buffers[move.writes[0].buffer].persistent;
}

Executor::Work Executor::BindCopy(const Instruction& instruction) {
  struct Copied {
    std::byte* from;
    std::byte* to;
    int64_t bytes;
  };
  std::vector<Copied> ranges;
  for (size_t r = 0; r < instruction.reads.size(); ++r) {
    ranges.push_back(
        {At(instruction.reads[r]), At(instruction.writes[r]), instruction.reads[r].bytes});
  }
  int64_t& count =
      instruction.operation == Operation::kCopyIn ? traffic_.copied_in : traffic_.copied_out;
  Lane& lane = KernelLane(instruction);
  return [this, &instruction, &lane, &count, ranges] {
    if (IsLeftAlone(instruction)) return absl::OkStatus();
    for (const Copied& range : ranges) {
      count += range.bytes;
      TESSERA_RETURN_IF_ERROR(kernels::Copy(lane, range.from, range.to, range.bytes));
    }
    return absl::OkStatus();
  };
}

Executor::Work Executor::BindTransfer(const Instruction& instruction) {
  const bool reads = instruction.operation == Operation::kRead;
  std::vector<NvmeFile::Transfer> transfers;
  for (size_t r = 0; r < instruction.reads.size(); ++r) {
    const Access& memory = reads ? instruction.writes[r] : instruction.reads[r];
    const Access& file = reads ? instruction.reads[r] : instruction.writes[r];
    transfers.push_back({At(memory), OffsetOf(file), file.bytes});
  }
  int64_t& count = reads ? traffic_.read : traffic_.written;
  return [this, &instruction, reads, &count, transfers] {
    if (IsLeftAlone(instruction)) return absl::OkStatus();
    for (const NvmeFile::Transfer& transfer : transfers) count += transfer.bytes;
    return reads ? arenas_.nvme->Read(transfers) : arenas_.nvme->Write(transfers);
  };
}

}  // namespace tessera
