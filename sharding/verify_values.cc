#include <array>
#include <set>

#include "absl/strings/str_cat.h"
#include "sharding/happens_before.h"
#include "sharding/interval_map.h"
#include "sharding/signature.h"
#include "sharding/verify.h"

namespace tessera {

std::string NameOf(const Value& value) {
  constexpr std::array<absl::string_view, 22> kNames = {
      "nothing",      "scratch",     "field",      "parameter", "master",     "momentum",
      "variance",     "hidden",      "saved",      "loss",      "prediction", "hidden_gradient",
      "contribution", "leaf",        "slot",       "own_sum",   "pieces",     "gradient",
      "norm",         "global_norm", "all_losses", "clip"};
  std::string text(kNames[static_cast<int>(value.kind)]);
  if (value.a < 0 && value.b < 0) return text;
  absl::StrAppend(&text, "(", value.a);
  for (int64_t part : {value.b, value.c, value.d}) {
    if (part >= 0) absl::StrAppend(&text, ", ", part);
  }
  absl::StrAppend(&text, ")");
  if (value.shift != 0) absl::StrAppend(&text, " displaced by ", value.shift);
  return text;
}

namespace {

using Kind = Value::Kind;

bool IsCollective(Operation operation) {
  return operation == Operation::kGatherParameters || operation == Operation::kGatherGradient ||
         operation == Operation::kGatherLosses || operation == Operation::kExchange ||
         operation == Operation::kReduceNorm;
}

// Runs a plan on symbols, as one rank, in the order of the list: where rule 2
// holds, any order that the lanes may take gives the same.
class SymbolicMachine {
 public:
  SymbolicMachine(const Plan& plan, const Model& model, int rank)
      : plan_(plan),
        model_(model),
        rank_(rank),
        signatures_(model, plan.options, plan.partitions),
        memory_(plan.buffers.size()),
        unread_(plan.buffers.size(), -1),
        held_(plan.buffers.size(), -1),
        writer_(plan.buffers.size(), -1) {}

  absl::Status Run() {
    TESSERA_RETURN_IF_ERROR(CheckState(0));
    for (size_t i = 0; i < plan_.instructions.size(); ++i) {
      TESSERA_RETURN_IF_ERROR(Step(static_cast<int>(i)));
    }
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      if (plan_.buffers[b].persistent) continue;
      if (held_[b] >= 0) return Fail(5, held_[b], static_cast<int>(b), "is never released");
      if (unread_[b] >= 0) return Fail(5, unread_[b], static_cast<int>(b), "is never read");
    }
    return CheckState(plan_.options.kind == PlanOptions::Kind::kTrain ? 1 : 0);
  }

 private:
  absl::Status Fail(int rule, int instruction, int buffer, absl::string_view what) const {
    return absl::FailedPreconditionError(absl::StrCat(
        "rule ", rule, ": buffer ", plan_.buffers[buffer].name, " ", what, ": ",
        instruction < 0 ? "no instruction" : PrintInstruction(plan_, model_, instruction)));
  }

  absl::Status Step(int number) {
    const Instruction& instruction = plan_.instructions[number];
    if (IsMove(instruction.operation)) return Move(number);
    TESSERA_RETURN_IF_ERROR(CheckNumbers(number));
    const Signature signature = signatures_.Of(instruction, FoundBy(instruction));
    if (instruction.reads.size() != signature.reads.size() ||
        instruction.writes.size() != signature.writes.size()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rule 5: operands are missing or too many: ", PrintInstruction(plan_, model_, number)));
    }
    for (size_t r = 0; r < signature.reads.size(); ++r) {
      TESSERA_RETURN_IF_ERROR(CheckPlace(number, instruction.reads[r], signature.reads[r]));
      TESSERA_RETURN_IF_ERROR(
          Read(number, instruction.reads[r], Shifted(instruction.reads[r], signature.reads[r])));
    }
    for (size_t w = 0; w < signature.writes.size(); ++w) {
      TESSERA_RETURN_IF_ERROR(CheckPlace(number, instruction.writes[w], signature.writes[w]));
      TESSERA_RETURN_IF_ERROR(Write(number, instruction.writes[w],
                                    Shifted(instruction.writes[w], signature.writes[w])));
    }
    // What was exchanged is spent: adding it again would count it twice.
    if (instruction.operation == Operation::kSum) {
      const Access& pieces = instruction.reads[1];
      memory_[pieces.buffer].Assign(pieces.begin, pieces.begin + pieces.bytes,
                                    Value{Kind::kScratch});
    }
    return absl::OkStatus();
  }

  // What is read is then where it is written, and must be something.
  absl::Status Move(int number) {
    const Instruction& instruction = plan_.instructions[number];
    for (size_t r = 0; r < instruction.reads.size(); ++r) {
      const Access& read = instruction.reads[r];
      const Access& write = instruction.writes[r];
      const int64_t by = BaseOf(write) - BaseOf(read);
      std::vector<std::pair<std::pair<int64_t, int64_t>, Value>> runs;
      ForEachByteRange(plan_.buffers[read.buffer], read, rank_, [&](int64_t begin, int64_t end) {
        memory_[read.buffer].ForEach(begin, end, [&](int64_t from, int64_t to, const Value& found) {
          runs.push_back({{from + by, to + by}, found});
        });
      });
      for (auto& [range, value] : runs) {
        if (value.kind == Kind::kNothing || value.kind == Kind::kScratch) {
          return Fail(1, number, read.buffer,
                      absl::StrCat("holds ", NameOf(value), " and is moved"));
        }
        value.shift -= by;
        memory_[write.buffer].Assign(range.first, range.second, value);
      }
      writer_[write.buffer] = number;
      unread_[read.buffer] = -1;
      if (!plan_.buffers[write.buffer].persistent) unread_[write.buffer] = number;
    }
    return absl::OkStatus();
  }

  // Where an access starts in its buffer, on this rank.
  int64_t BaseOf(const Access& access) const {
    const int64_t own =
        access.scope == Scope::kRange ? 0 : rank_ * plan_.buffers[access.buffer].shard_bytes;
    return own + access.begin;
  }

  // The value at an access, as it belongs there.
  Value Shifted(const Access& access, const Operand& operand) const {
    Value value = operand.value;
    if (operand.begin >= 0) value.shift = rank_ * (operand.shard) + operand.begin - BaseOf(access);
    return value;
  }

  // The instruction's call, unit and micro-step exist.
  absl::Status CheckNumbers(int number) const {
    const Instruction& i = plan_.instructions[number];
    const bool computes = i.operation == Operation::kForward || i.operation == Operation::kBackward;
    const bool has_unit =
        i.operation == Operation::kGatherParameters || i.operation == Operation::kClearPadding ||
        i.operation == Operation::kFoldContributions || i.operation == Operation::kRelease ||
        i.operation == Operation::kAccumulate || i.operation == Operation::kExchange ||
        i.operation == Operation::kSum || i.operation == Operation::kGatherGradient ||
        i.operation == Operation::kSquareNorm || i.operation == Operation::kUpdate;
    const bool has_micro_step =
        computes || i.operation == Operation::kStageBatch ||
        i.operation == Operation::kClearPadding || i.operation == Operation::kFoldContributions ||
        i.operation == Operation::kAccumulate || i.operation == Operation::kExchange ||
        i.operation == Operation::kSum;
    const bool ok =
        (!computes || (i.call >= 0 && i.call < static_cast<int>(model_.calls.size()))) &&
        (!has_unit || (i.unit >= 0 && i.unit < static_cast<int>(model_.units.size()))) &&
        (i.operation != Operation::kFoldContributions ||
         (i.parameter >= 0 &&
          i.parameter < static_cast<int>(model_.units[i.unit].parameters.size()))) &&
        (i.operation != Operation::kUpdate || UpdatesOneTile(i)) &&
        (!has_micro_step || i.micro_step >= 0) && i.micro_step < plan_.options.accumulation;
    if (ok) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("rule 5: no such call, unit or micro-step: ",
                                                      PrintInstruction(plan_, model_, number)));
  }

  // The elements are the unit's, all on the device or none.
  bool UpdatesOneTile(const Instruction& i) const {
    const Layout& layout = signatures_.layout();
    const int64_t cut = layout.DeviceElements(i.unit);
    const int64_t end = i.first + i.elements;
    return i.first >= 0 && i.elements > 0 && end <= layout.StateElements(i.unit) &&
           (i.first >= cut || end <= cut);
  }

  Signatures::Found FoundBy(const Instruction& instruction) const {
    Signatures::Found found;
    // A gather after the update of a unit carries the new version.
    if (instruction.operation == Operation::kGatherParameters) {
      found.parameter_version = updated_.count(instruction.unit) > 0 ? 1 : 0;
    }
    if (instruction.operation == Operation::kReduceNorm && !instruction.reads.empty()) {
      const Access& sum = instruction.reads[0];
      memory_[sum.buffer].ForEach(sum.begin, sum.begin + 1,
                                  [&](int64_t, int64_t, const Value& value) {
                                    found.host_norm = value.kind == Kind::kNorm && value.b == 1;
                                  });
    }
    return found;
  }

  absl::Status CheckPlace(int number, const Access& access, const Operand& operand) const {
    if (access.role != operand.role || access.index != operand.index) {
      return Fail(5, number, access.buffer, "is not the operand that belongs there");
    }
    if (access.bytes != operand.bytes) {
      return Fail(
          5, number, access.buffer,
          absl::StrCat("is accessed in ", access.bytes, " bytes, not ", operand.bytes, ","));
    }
    return absl::OkStatus();
  }

  absl::Status Read(int number, const Access& access, const Value& wanted) {
    absl::Status status;
    ForEachByteRange(plan_.buffers[access.buffer], access, rank_, [&](int64_t begin, int64_t end) {
      memory_[access.buffer].ForEach(begin, end, [&](int64_t from, int64_t to, const Value& found) {
        if (!status.ok()) return;
        Value expected = wanted;
        if (wanted.kind == Kind::kLoss) expected.a = from / SizeOf(DType::kFloat64);
        if (found == expected) return;
        status = Fail(found.kind == Kind::kNothing ? 1 : 5, number, access.buffer,
                      absl::StrCat("holds ", NameOf(found), " at [", from, ", ", to, ") where ",
                                   NameOf(expected), " is read"));
      });
    });
    // A gather in place reads its own shard of what was gathered: that is no use of it.
    const Instruction& reader = plan_.instructions[number];
    const bool in_place =
        IsCollective(reader.operation) && reader.writes[0].buffer == access.buffer;
    if (!in_place) unread_[access.buffer] = -1;
    return status;
  }

  absl::Status Write(int number, const Access& access, const Value& value) {
    const Operation operation = plan_.instructions[number].operation;
    const bool persistent = plan_.buffers[access.buffer].persistent;
    if (operation == Operation::kRelease) {
      if (held_[access.buffer] < 0) return Fail(5, number, access.buffer, "is not held");
      held_[access.buffer] = -1;
      if (unread_[access.buffer] >= 0) return Fail(5, number, access.buffer, "is never read");
    } else if (IsCollective(operation) && !persistent) {
      // What a gather in place adds to may have been moved there.
      const bool in_place = plan_.instructions[number].reads[0].buffer == access.buffer;
      const int before = unread_[access.buffer];
      if (before >= 0 && !(in_place && IsMove(plan_.instructions[before].operation))) {
        return Fail(5, number, access.buffer, "is overwritten before it is read");
      }
      unread_[access.buffer] = number;
      if (operation == Operation::kGatherParameters && !in_place) {
        if (held_[access.buffer] >= 0) return Fail(5, number, access.buffer, "is held already");
        held_[access.buffer] = number;
      }
    } else if (IsCollective(operation) && value.b == 0) {
      return Fail(5, number, access.buffer, "is gathered before its update");
    }
    writer_[access.buffer] = number;
    if (operation == Operation::kUpdate) updated_.insert(plan_.instructions[number].unit);
    ForEachByteRange(plan_.buffers[access.buffer], access, rank_, [&](int64_t begin, int64_t end) {
      memory_[access.buffer].Assign(begin, end, value);
    });
    return absl::OkStatus();
  }

  // The state's parts, as the layout has them, each in a buffer of its own. Version 0
  // is assumed; any other is checked.
  absl::Status CheckState(int version) {
    const std::vector<StatePart>& wanted = signatures_.layout().state();
    for (size_t s = 0; s < wanted.size(); ++s) {
      const StatePart& part = wanted[s];
      if (s >= plan_.state.size() || !Holds(plan_.state[s], part)) {
        return absl::FailedPreconditionError(
            absl::StrCat("rule 6: unit ", model_.units[part.unit].name,
                         " lacks a persistent buffer of its own for part ", s, " of the state"));
      }
      const int buffer = plan_.state[s].buffer;
      const Value value = StateValue(part, version);
      const int64_t bytes = plan_.buffers[buffer].bytes;
      if (version == 0 && !assumed_) {
        memory_[buffer].Assign(0, bytes, value);
        continue;
      }
      absl::Status status;
      memory_[buffer].ForEach(0, bytes, [&](int64_t from, int64_t to, const Value& found) {
        if (found == value || !status.ok()) return;
        const int last = static_cast<int>(plan_.instructions.size()) - 1;
        status = Fail(6, writer_[buffer] >= 0 ? writer_[buffer] : last, buffer,
                      absl::StrCat("is left with ", NameOf(found), " at [", from, ", ", to,
                                   ") instead of ", NameOf(value), " by the step, up to"));
      });
      TESSERA_RETURN_IF_ERROR(status);
    }
    assumed_ = true;
    return absl::OkStatus();
  }

  int64_t ElementOf(Role role) const {
    return role == Role::kParameter ? SizeOf(model_.dtype) : SizeOf(DType::kFloat32);
  }

  bool Holds(const StatePart& part, const StatePart& wanted) {
    if (part.role != wanted.role || part.unit != wanted.unit || part.first != wanted.first ||
        part.elements != wanted.elements || part.buffer < 0 ||
        part.buffer >= static_cast<int>(plan_.buffers.size())) {
      return false;
    }
    const Buffer& buffer = plan_.buffers[part.buffer];
    if (!assumed_ && !state_buffers_.insert(part.buffer).second) return false;
    return buffer.persistent && buffer.tier == wanted.tier &&
           buffer.bytes == wanted.elements * ElementOf(wanted.role);
  }

  Value StateValue(const StatePart& part, int version) const {
    const Kind kind = part.role == Role::kParameter  ? Kind::kParameter
                      : part.role == Role::kMaster   ? Kind::kMaster
                      : part.role == Role::kMomentum ? Kind::kMomentum
                                                     : Kind::kVariance;
    Value value = {kind, part.unit, version};
    const int64_t size = ElementOf(part.role);
    value.shift = (part.first + plan_.HeldFrom(part.role, part.unit, rank_)) * size;
    return value;
  }

  const Plan& plan_;
  const Model& model_;
  const int rank_;
  const Signatures signatures_;
  std::vector<IntervalMap<Value>> memory_;
  std::vector<int> unread_;  // by buffer: the collective whose result nobody has read
  std::vector<int> held_;    // by buffer: the gather that was not released yet
  std::vector<int> writer_;  // by buffer: the latest
  std::set<int> updated_;    // units
  std::set<int> state_buffers_;
  bool assumed_ = false;
};

}  // namespace

// Every rank runs the same instructions on the same buffers, with its own shard
// in the place of the others'; the first and the last rank stand for all.
absl::Status VerifyValues(const Plan& plan, const Model& model) {
  TESSERA_RETURN_IF_ERROR(SymbolicMachine(plan, model, 0).Run());
  if (plan.options.world == 1) return absl::OkStatus();
  return SymbolicMachine(plan, model, plan.options.world - 1).Run();
}

}  // namespace tessera
