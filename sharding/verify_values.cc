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
  return absl::StrCat(text, ")");
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
    TESSERA_RETURN_IF_ERROR(CheckNumbers(number));
    const Signature signature = signatures_.Of(instruction, VersionFor(instruction));
    if (instruction.reads.size() != signature.reads.size() ||
        instruction.writes.size() != signature.writes.size()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rule 5: operands are missing or too many: ", PrintInstruction(plan_, model_, number)));
    }
    for (size_t r = 0; r < signature.reads.size(); ++r) {
      TESSERA_RETURN_IF_ERROR(CheckPlace(number, instruction.reads[r], signature.reads[r]));
      TESSERA_RETURN_IF_ERROR(Read(number, instruction.reads[r], signature.reads[r].value));
    }
    for (size_t w = 0; w < signature.writes.size(); ++w) {
      TESSERA_RETURN_IF_ERROR(CheckPlace(number, instruction.writes[w], signature.writes[w]));
      TESSERA_RETURN_IF_ERROR(Write(number, instruction.writes[w], signature.writes[w].value));
    }
    // What was exchanged is spent: adding it again would count it twice.
    if (instruction.operation == Operation::kSum) {
      const Access& pieces = instruction.reads[1];
      memory_[pieces.buffer].Assign(pieces.begin, pieces.begin + pieces.bytes,
                                    Value{Kind::kScratch});
    }
    return absl::OkStatus();
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
        (!has_micro_step || i.micro_step >= 0) && i.micro_step < plan_.options.accumulation;
    if (ok) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("rule 5: no such call, unit or micro-step: ",
                                                      PrintInstruction(plan_, model_, number)));
  }

  // A gather after the update of a unit carries the new version.
  int VersionFor(const Instruction& instruction) const {
    return instruction.operation == Operation::kGatherParameters && updated_.count(instruction.unit)
               ? 1
               : 0;
  }

  absl::Status CheckPlace(int number, const Access& access, const Operand& operand) const {
    if (access.role != operand.role || access.index != operand.index) {
      return Fail(5, number, access.buffer, "is not the operand that belongs there");
    }
    if (access.bytes != operand.bytes || (operand.begin >= 0 && access.begin != operand.begin)) {
      return Fail(5, number, access.buffer,
                  absl::StrCat("is accessed at [", access.begin, "+", access.bytes, "], not [",
                               operand.begin, "+", operand.bytes, "],"));
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
    if (!IsCollective(plan_.instructions[number].operation)) unread_[access.buffer] = -1;
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
      if (unread_[access.buffer] >= 0) {
        return Fail(5, number, access.buffer, "is overwritten before it is read");
      }
      unread_[access.buffer] = number;
      if (operation == Operation::kGatherParameters) {
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

  // The persistent buffers, in the order in which a model has them. Version 0 is
  // assumed; any other is checked.
  absl::Status CheckState(int version) {
    size_t next = 0;
    const int last = static_cast<int>(plan_.instructions.size()) - 1;
    const bool has_master = model_.dtype != DType::kFloat32;
    for (size_t u = 0; u < model_.units.size(); ++u) {
      for (Kind kind : {Kind::kParameter, Kind::kMaster, Kind::kMomentum, Kind::kVariance}) {
        if (kind == Kind::kMaster && !has_master) continue;
        if (next >= plan_.buffers.size() || !plan_.buffers[next].persistent) {
          return absl::FailedPreconditionError(
              absl::StrCat("rule 6: unit ", model_.units[u].name, " lacks a persistent buffer"));
        }
        const Value value = {kind, static_cast<int64_t>(u), version};
        const int64_t bytes = plan_.buffers[next].bytes;
        if (!assumed_) {
          memory_[next].Assign(0, bytes, value);
        } else {
          absl::Status status;
          memory_[next].ForEach(0, bytes, [&](int64_t from, int64_t to, const Value& found) {
            if (found == value || !status.ok()) return;
            const int culprit = writer_[next] >= 0 ? writer_[next] : last;
            status = Fail(6, culprit, static_cast<int>(next),
                          absl::StrCat("is left with ", NameOf(found), " at [", from, ", ", to,
                                       ") instead of ", NameOf(value), " by the step, up to"));
          });
          TESSERA_RETURN_IF_ERROR(status);
        }
        ++next;
      }
    }
    assumed_ = true;
    return absl::OkStatus();
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
