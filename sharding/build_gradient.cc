#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/ordered_sum.h"
#include "sharding/builder.h"

namespace tessera {
namespace {

constexpr int64_t kSumElement = SizeOf(DType::kFloat32);

}  // namespace

// The buffer in which a unit's leaf of the micro-step is assembled. It is a passing one
// where the gradient is sharded, or goes elsewhere once it is finished; if another lane
// is the last to read it, it waits until all but the latest of those before it have
// been read, so two at most are alive.
int Builder::BeginLeaf(int unit, int micro_step) {
  if (leaf_[unit] >= 0) return leaf_[unit];
  const bool goes = layout_.GradientOf(unit) != Tier::kDevice;
  leaf_[unit] = gradients_sharded() || (goes && accumulates_first())
                    ? AddBuffer(absl::StrCat("leaf.", model_.units[unit].name, ".", micro_step),
                                Category::kCommunication, partition(unit).padded * element(),
                                alone() ? 0 : partition(unit).shard * element())
                    : gradients_[unit];
  const std::vector<ElementRange> padding = PaddingOf(partition(unit));
  if (padding.empty()) return leaf_[unit];
  Instruction& clear = Add(Operation::kClearPadding, LaneKind::kCompute);
  clear.unit = unit;
  clear.micro_step = micro_step;
  if (LeafPasses(unit)) {
    WaitForLastButOne(LeafEnds(unit), static_cast<int>(plan_.instructions.size()) - 1);
  }
  for (const ElementRange& range : padding) {
    clear.writes.push_back(
        {Role::kLeaf, leaf_[unit], range.begin * element(), (range.end - range.begin) * element()});
  }
  return leaf_[unit];
}

void Builder::AddGradientWrites(const Position& at, Instruction* backward) {
  const std::vector<ParameterUse>& uses = model_.calls[at.call].uses;
  for (size_t i = 0; i < uses.size(); ++i) {
    const auto [unit, parameter] = uses[i];
    const int index = static_cast<int>(i);
    if (!uses_.IsTied(unit, parameter)) {
      const int leaf = BeginLeaf(unit, at.micro_step);
      backward->writes.push_back(
          Slice(Role::kParameterGradient, leaf, unit, parameter, element(), index));
      const std::vector<int>& ends = LeafEnds(unit);
      if (LeafPasses(unit) && ends.size() >= 2) backward->waits.push_back(ends[ends.size() - 2]);
      continue;
    }
    const int contribution =
        AddBuffer(absl::StrCat("contribution.", model_.units[unit].name, ".",
                               model_.units[unit].parameters[parameter].name, ".",
                               model_.calls[at.call].name, ".", at.micro_step),
                  Category::kWorkspace, partition(unit).sizes[parameter] * kSumElement);
    contributions_[{unit, parameter, at.call}] = contribution;
    backward->writes.push_back(Whole(Role::kParameterGradient, contribution, index));
  }
}

// After the backward of a call: adds what is complete of tied parameters, and
// sends every unit on its way that has no earlier use.
void Builder::FoldAndReduce(const Position& at) {
  for (const ParameterUse& use : model_.calls[at.call].uses) {
    const std::vector<int>& calls = uses_.Of(use.unit, use.parameter);
    if (calls.size() > 1 && calls.back() == at.call) Fold(use.unit, use.parameter, at.micro_step);
  }
  for (int unit : uses_.UnitsOf(at.call)) {
    if (uses_.FirstCallOf(unit) == at.call && !empty(unit)) ReduceLeaf(unit, at.micro_step);
  }
}

void Builder::Fold(int unit, int parameter, int micro_step) {
  const int leaf = BeginLeaf(unit, micro_step);
  Instruction& fold = Add(Operation::kFoldContributions, LaneKind::kCompute);
  fold.unit = unit;
  fold.parameter = parameter;
  fold.micro_step = micro_step;
  for (int call : uses_.Of(unit, parameter)) {
    fold.reads.push_back(
        Whole(Role::kContribution, contributions_.at({unit, parameter, call}), call));
  }
  fold.writes.push_back(Slice(Role::kLeaf, leaf, unit, parameter, element(), 0));
}

void Builder::ReduceLeaf(int unit, int micro_step) {
  const bool last = micro_step + 1 == options_.accumulation;
  if (accumulates_first()) Accumulate(unit, micro_step);
  if (gradients_sharded()) {
    ExchangeAndSum(unit, micro_step, leaf_[unit]);
  } else if (last && !alone()) {
    ExchangeAndSum(unit, micro_step, accumulates_first() ? total_.at(unit) : leaf_[unit]);
    if (options_.stage == 0) {
      Instruction& gather = Add(Operation::kGatherGradient, LaneKind::kCommunication);
      gather.unit = unit;
      gather.reads.push_back(Own(Role::kShard, gradients_[unit]));
      gather.writes.push_back(Others(Role::kWhole, gradients_[unit]));
    }
  }
  if (last) FinishGradient(unit);
}

// Stages 0 and 1, and a rank alone: the counter is the rank's own, over whole
// units. Finished, it stands in the memory of one of its slots, or, where no
// exchange follows, in the gradient itself.
void Builder::Accumulate(int unit, int micro_step) {
  const bool last = micro_step + 1 == options_.accumulation;
  const bool on_host = layout_.SumsOnHost(unit);
  int leaf = leaf_[unit];
  if (on_host) {
    leaf = AddBufferIn(Tier::kHost, absl::StrCat("host_", plan_.buffers[leaf].name),
                       Category::kCommunication, plan_.buffers[leaf].bytes);
    leaf_ends_.push_back(MoveWhole(Operation::kCopyOut, {.unit = unit, .micro_step = micro_step},
                                   leaf_[unit], leaf));
    WaitForLastButOne(host_sums_, leaf_ends_.back());
  }
  const std::vector<Access> before = Slots(unit, micro_step, 0, partition(unit).padded);
  const std::vector<Access> after =
      last ? std::vector<Access>() : Slots(unit, micro_step + 1, 0, partition(unit).padded);
  Instruction& accumulate =
      Add(Operation::kAccumulate, on_host ? LaneKind::kHostCompute : LaneKind::kCompute);
  accumulate.unit = unit;
  accumulate.micro_step = micro_step;
  accumulate.reads.push_back(Whole(Role::kLeaf, leaf));
  accumulate.reads.insert(accumulate.reads.end(), before.begin(), before.end());
  accumulate.writes = after;
  if (on_host) host_sums_.push_back(static_cast<int>(plan_.instructions.size()) - 1);
  if (!last) return;
  total_[unit] = on_host ? HostGradient(unit) : alone() ? gradients_[unit] : before.front().buffer;
  plan_.instructions.back().writes.push_back(Whole(Role::kTotal, total_[unit]));
  if (on_host && layout_.GradientOf(unit) == Tier::kNvme) {
    WaitForLastButOne(writes_behind_, host_sums_.back());
  }
}

// Room on the host for what this rank updates with of a unit's finished gradient.
int Builder::HostGradient(int unit) {
  const UnitPartition& p = partition(unit);
  const bool home = layout_.GradientOf(unit) == Tier::kHost;
  const int buffer =
      AddBufferIn(Tier::kHost, absl::StrCat("gradient_host.", model_.units[unit].name),
                  home ? Category::kGradients : Category::kCommunication,
                  layout_.StateElements(unit) * element());
  // A part of it is this rank's share of the norm.
  if (!alone() && options_.stage == 0) plan_.buffers[buffer].shard_bytes = p.shard * element();
  return buffer;
}

// Where the gradient does not wait on the device for its update: sends it away, and
// takes its norm on the way.
void Builder::FinishGradient(int unit) {
  const Tier tier = layout_.GradientOf(unit);
  if (tier == Tier::kDevice) return;
  const Purpose purpose = {.unit = unit};
  int gradient = -1;
  if (layout_.SumsOnHost(unit)) {
    gradient = total_.at(unit);
  } else {
    gradient = HostGradient(unit);
    const Access finished = optimizer_sharded() ? Own(Role::kMoved, gradients_[unit])
                                                : Whole(Role::kMoved, gradients_[unit]);
    gradient_ends_.push_back(
        Move(Operation::kCopyOut, purpose, {{finished, Whole(Role::kMoved, gradient)}}));
    if (tier == Tier::kNvme) WaitForLastButOne(writes_behind_, gradient_ends_.back());
  }
  HostSquareNorm(unit, gradient);
  const int norm = static_cast<int>(plan_.instructions.size()) - 1;
  gradient_home_[unit] = gradient;
  if (tier == Tier::kHost) return;
  gradient_home_[unit] = AddBufferIn(tier, absl::StrCat("gradient_nvme.", model_.units[unit].name),
                                     Category::kGradients, plan_.buffers[gradient].bytes);
  WriteBehind(purpose, gradient, gradient_home_[unit]);
  // So that who waits for the write may take the memory.
  plan_.instructions.back().waits.push_back(norm);
}

// One exchange and one sum per piece of the shards, so that what is received at
// once stays within the bucket.
void Builder::ExchangeAndSum(int unit, int micro_step, int buffer) {
  const int64_t element_bytes = accumulates_first() ? kSumElement : element();
  const int64_t peers = options_.world - 1;
  const int64_t shard = partition(unit).shard;
  const int64_t fitting = options_.bucket_bytes / (peers * element_bytes);
  const int64_t piece =
      std::min(shard, std::max(fitting / kChunkElements, int64_t{1}) * kChunkElements);
  const bool finish = !gradients_sharded() || micro_step + 1 == options_.accumulation;
  const bool goes = finish && layout_.GradientOf(unit) != Tier::kDevice;
  if (staging_ < 0) staging_ = AddBuffer("staging", Category::kCommunication, 0);
  plan_.buffers[staging_].bytes =
      std::max(plan_.buffers[staging_].bytes, peers * piece * element_bytes);

  for (int64_t begin = 0, number = 0; begin < shard; begin += piece, ++number) {
    const int64_t elements = std::min(piece, shard - begin);
    const int64_t bytes = elements * element_bytes;
    const Access received = {Role::kPieces, staging_, 0, peers * bytes};
    Instruction exchange;
    exchange.operation = Operation::kExchange;
    exchange.reads.push_back({Role::kLeaf, buffer, begin * element_bytes, bytes, Scope::kOthers});
    exchange.writes.push_back(received);

    Instruction sum;
    sum.operation = Operation::kSum;
    sum.reads.push_back({Role::kLeaf, buffer, begin * element_bytes, bytes, Scope::kOwn});
    sum.reads.push_back(received);
    if (gradients_sharded()) {
      const std::vector<Access> before =
          Slots(unit, int64_t{micro_step} * options_.world, begin, elements);
      sum.reads.insert(sum.reads.end(), before.begin(), before.end());
    }
    if (finish) {
      const Scope scope = gradients_sharded() ? Scope::kRange : Scope::kOwn;
      sum.writes.push_back(
          {Role::kTotal, gradients_[unit], begin * element(), elements * element(), scope});
    } else {
      sum.writes = Slots(unit, int64_t{micro_step + 1} * options_.world, begin, elements);
    }
    for (Instruction* instruction : {&exchange, &sum}) {
      instruction->lane = LaneKind::kCommunication;
      instruction->unit = unit;
      instruction->micro_step = micro_step;
      instruction->piece = static_cast<int>(number);
      plan_.instructions.push_back(std::move(*instruction));
    }
    if (goes) WaitForLastButOne(gradient_ends_, static_cast<int>(plan_.instructions.size()) - 1);
  }
  leaf_ends_.push_back(static_cast<int>(plan_.instructions.size()) - 1);
}

// What the unit's counter holds after `leaves`, restricted to some elements.
std::vector<Access> Builder::Slots(int unit, int64_t leaves, int64_t first_element,
                                   int64_t elements) {
  std::vector<Access> slots;
  for (int level : kernels::OccupiedSlots(leaves, options_.sum_group)) {
    const auto [slot, is_new] = slots_.try_emplace({unit, level}, -1);
    if (is_new) {
      const UnitPartition& p = partition(unit);
      const bool whole = !gradients_sharded();
      slot->second =
          AddBuffer(absl::StrCat("partial_sum.", model_.units[unit].name, ".",
                                 level == kernels::kOpenGroup ? "open" : absl::StrCat(level)),
                    Category::kPartialSums, (whole ? p.padded : p.shard) * kSumElement,
                    whole && !alone() ? p.shard * kSumElement : 0);
      if (layout_.SumsOnHost(unit)) plan_.buffers[slot->second].tier = Tier::kHost;
    }
    slots.push_back({Role::kSlot, slot->second, first_element * kSumElement, elements * kSumElement,
                     Scope::kRange, level});
  }
  return slots;
}

}  // namespace tessera
