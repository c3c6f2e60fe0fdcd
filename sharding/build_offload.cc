#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sharding/builder.h"

namespace tessera {
namespace {

LaneKind LaneOf(Operation operation) {
  switch (operation) {
    case Operation::kCopyIn:
      return LaneKind::kCopyIn;
    case Operation::kCopyOut:
      return LaneKind::kCopyOut;
    case Operation::kRead:
      return LaneKind::kRead;
    default:
      return LaneKind::kWrite;
  }
}

// A tile is read or copied while the one before it is updated and the one before that
// goes back.
constexpr size_t kTurns = 3;

}  // namespace

int Builder::Move(Operation operation, const Purpose& purpose, const std::vector<Ranges>& ranges) {
  Instruction& move = Add(operation, LaneOf(operation));
  move.unit = purpose.unit;
  move.call = purpose.call;
  move.micro_step = purpose.micro_step;
  for (const Ranges& range : ranges) {
    const int index = static_cast<int>(move.reads.size());
    move.reads.push_back(range.from);
    move.writes.push_back(range.to);
    for (Access* access : {&move.reads.back(), &move.writes.back()}) {
      access->role = Role::kMoved;
      access->index = index;
    }
  }
  return static_cast<int>(plan_.instructions.size()) - 1;
}

int Builder::MoveWhole(Operation operation, const Purpose& purpose, int from, int to) {
  return Move(operation, purpose, {{Whole(Role::kMoved, from), Whole(Role::kMoved, to)}});
}

// What is no multiple of a page ends with its buffer, so that the rest of the page can
// be moved too; it takes turns with its like alone.
int Builder::NextOf(absl::string_view kind, Tier tier, int64_t bytes) {
  const std::string ring =
      bytes % kNvmeAlignment == 0 ? std::string(kind) : absl::StrCat(kind, ".", bytes);
  Ring& turns = rings_[ring];
  if (turns.buffers.size() < kTurns) {
    turns.buffers.push_back(AddBufferIn(tier, absl::StrCat(ring, ".", turns.buffers.size()),
                                        Category::kCommunication, bytes));
  }
  const int buffer = turns.buffers[turns.next++ % kTurns];
  plan_.buffers[buffer].bytes = std::max(plan_.buffers[buffer].bytes, bytes);
  return buffer;
}

void Builder::WaitForLastButOne(const std::vector<int>& ends, int instruction) {
  if (ends.size() < 2) return;
  plan_.instructions[instruction].waits.push_back(ends[ends.size() - 2]);
}

// From a transient of the host, whose filling waited for the last write but one.
void Builder::WriteBehind(const Purpose& purpose, int from, int to) {
  writes_behind_.push_back(MoveWhole(Operation::kWrite, purpose, from, to));
}

// From where something lives to the device, after a compute instruction.
void Builder::CopyIn(const Purpose& purpose, int home, int to, int after) {
  const auto move = [&](Operation operation, int from, int target) {
    const int instruction = MoveWhole(operation, purpose, from, target);
    if (after >= 0) plan_.instructions[instruction].waits.push_back(after);
  };
  if (plan_.buffers[home].tier == Tier::kNvme) {
    const int arrived = AddBufferIn(Tier::kHost, absl::StrCat("read.", plan_.instructions.size()),
                                    Category::kCommunication, plan_.buffers[home].bytes);
    move(Operation::kRead, home, arrived);
    home = arrived;
  }
  move(Operation::kCopyIn, home, to);
}

// After the forward of a call: its input goes to where it waits for the backward.
void Builder::KeepInput(const Position& at) {
  const Tier tier = layout_.InputOf(at.call);
  if (tier == Tier::kDevice) return;
  const Purpose purpose = {.call = at.call, .micro_step = at.micro_step};
  const int input = hidden_[at.call - 1];
  const std::string name = absl::StrCat(model_.calls[at.call].name, ".", at.micro_step);
  const auto add = [&](Tier in, absl::string_view kind, Category category) {
    return AddBufferIn(in, absl::StrCat(kind, name), category, plan_.buffers[input].bytes);
  };
  const int host = tier == Tier::kHost
                       ? add(tier, "input.", Category::kActivations)
                       : add(Tier::kHost, "written.input.", Category::kCommunication);
  const int copy = MoveWhole(Operation::kCopyOut, purpose, input, host);
  kept_[at.call] = host;
  if (tier == Tier::kHost) return;
  WaitForLastButOne(writes_behind_, copy);
  kept_[at.call] = add(tier, "input.", Category::kActivations);
  WriteBehind(purpose, host, kept_[at.call]);
}

// Brings back the inputs of the calls whose backward is at most options.prefetch
// positions ahead.
void Builder::ReturnInputs(int position) {
  const Position& now = sequence_[position];
  if (!now.backward) return;
  next_return_ = std::max(next_return_, static_cast<size_t>(position));
  for (; next_return_ < sequence_.size(); ++next_return_) {
    const Position& at = sequence_[next_return_];
    const bool ahead = next_return_ > static_cast<size_t>(position) + options_.prefetch;
    if (ahead || at.micro_step != now.micro_step) return;
    if (layout_.InputOf(at.call) == Tier::kDevice) continue;
    const int input =
        AddBuffer(absl::StrCat("returned.", model_.calls[at.call].name, ".", at.micro_step),
                  Category::kActivations, plan_.buffers[kept_[at.call]].bytes);
    CopyIn({.call = at.call, .micro_step = at.micro_step}, kept_[at.call], input, LastCompute());
    hidden_[at.call - 1] = input;
  }
}

}  // namespace tessera
