#include "sharding/testing/mutants.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::testing {
namespace {

constexpr int64_t kShift = 64;
constexpr int kReleaseMoves = 3;

bool IsCollective(const Instruction& i) {
  return i.operation == Operation::kGatherParameters || i.operation == Operation::kExchange ||
         i.operation == Operation::kGatherGradient || i.operation == Operation::kReduceNorm ||
         i.operation == Operation::kGatherLosses;
}

bool IsReduction(const Instruction& i) {
  return i.operation == Operation::kExchange || i.operation == Operation::kSum ||
         i.operation == Operation::kAccumulate || i.operation == Operation::kGatherGradient ||
         i.operation == Operation::kSquareNorm || i.operation == Operation::kReduceNorm ||
         i.operation == Operation::kFoldContributions || i.operation == Operation::kClearPadding ||
         i.operation == Operation::kUpdate;
}

class MutantMaker {
 public:
  MutantMaker(const Plan& plan, int first, int stride,
              const std::function<void(const Mutant&)>& visit)
      : plan_(plan), first_(first), stride_(stride), visit_(visit) {}

  void Make() {
    Waits();
    for (int i = 0; i < count(); ++i) {
      if (plan_.instructions[i].operation == Operation::kRelease) Release(i);
      if (IsReduction(plan_.instructions[i]) || IsMove(at(i).operation)) Reduction(i);
      if (IsMove(at(i).operation)) OtherBuffers(i);
      if (plan_.instructions[i].operation == Operation::kGatherParameters) StaleGather(i);
      if (IsCollective(plan_.instructions[i])) SwapCollective(i);
      Accesses(i);
      Fields(i);
    }
    Offsets();
  }

 private:
  int count() const { return static_cast<int>(plan_.instructions.size()); }
  const Instruction& at(int i) const { return plan_.instructions[i]; }

  bool Chosen(const std::string& kind, int sparser = 1) {
    const int stride = stride_ * sparser;
    return number_[kind]++ % stride == first_ % stride;
  }

  void Emit(const std::string& kind, int instruction, Plan plan) {
    visit_({kind, absl::StrCat("%", instruction), std::move(plan)});
  }

  // The same plan but for one change to one instruction.
  template <typename Change>
  void Edit(const std::string& kind, int i, Change change) {
    if (!Chosen(kind)) return;
    Plan plan = plan_;
    change(&plan.instructions[i]);
    Emit(kind, i, std::move(plan));
  }

  // Old numbers in a new order; some may be missing, some there twice.
  void Rearrange(const std::string& kind, int instruction, const std::vector<int>& order) {
    if (!Chosen(kind)) return;
    Plan plan = plan_;
    plan.instructions.clear();
    std::vector<int> renumbered(count(), -1);
    for (size_t n = 0; n < order.size(); ++n) {
      if (renumbered[order[n]] < 0) renumbered[order[n]] = static_cast<int>(n);
      plan.instructions.push_back(at(order[n]));
    }
    for (Instruction& i : plan.instructions) {
      std::set<int> waits;
      for (int wait : i.waits) AddWait(wait, renumbered, &waits);
      i.waits.assign(waits.begin(), waits.end());
    }
    Emit(kind, instruction, std::move(plan));
  }

  void AddWait(int wait, const std::vector<int>& renumbered, std::set<int>* waits) const {
    if (renumbered[wait] >= 0) {
      waits->insert(renumbered[wait]);
      return;
    }
    for (int earlier : at(wait).waits) AddWait(earlier, renumbered, waits);
    const int previous = InLane(wait, -1);
    if (previous >= 0) AddWait(previous, renumbered, waits);
  }

  // The instruction `steps` places further in the lane of `i`, or -1.
  int InLane(int i, int steps) const {
    const int step = steps > 0 ? 1 : -1;
    int found = i;
    while (steps != 0) {
      for (found += step; found >= 0 && found < count(); found += step) {
        if (at(found).lane == at(i).lane) break;
      }
      if (found < 0 || found >= count()) return -1;
      steps -= step;
    }
    return found;
  }

  std::vector<int> Order() const {
    std::vector<int> order(count());
    for (int i = 0; i < count(); ++i) order[i] = i;
    return order;
  }
  std::vector<int> Without(int i) const {
    std::vector<int> order = Order();
    order.erase(order.begin() + i);
    return order;
  }
  // `i` directly before `other`, or directly after it.
  std::vector<int> Moved(int i, int other, bool after) const {
    std::vector<int> order = Without(i);
    const auto place = std::find(order.begin(), order.end(), other);
    order.insert(place + (after ? 1 : 0), i);
    return order;
  }
  std::vector<int> Swapped(int i, int other) const {
    std::vector<int> order = Order();
    std::swap(order[i], order[other]);
    return order;
  }

  void Waits() {
    for (int i = 0; i < count(); ++i) {
      for (size_t w = 0; w < at(i).waits.size(); ++w) {
        Edit("wait removed", i,
             [&](Instruction* changed) { changed->waits.erase(changed->waits.begin() + w); });
        int later = i + 1;
        while (later < count() && at(later).lane != at(at(i).waits[w]).lane) ++later;
        Edit("wait forward", i, [&](Instruction* changed) { changed->waits[w] = later; });
      }
    }
  }

  void Release(int i) {
    Rearrange("release dropped", i, Without(i));
    for (int steps = 1; steps <= kReleaseMoves; ++steps) {
      const int earlier = InLane(i, -steps);
      const int later = InLane(i, steps);
      if (earlier >= 0) Rearrange("release moved", i, Moved(i, earlier, /*after=*/false));
      if (later >= 0) Rearrange("release moved", i, Moved(i, later, /*after=*/true));
    }
  }

  void Reduction(int i) {
    const std::string name(NameOf(at(i).operation));
    Rearrange(absl::StrCat(name, " dropped"), i, Without(i));
    std::vector<int> twice = Order();
    twice.insert(twice.begin() + i, i);
    Rearrange(absl::StrCat(name, " doubled"), i, twice);
    const int next = InLane(i, 1);
    if (next >= 0) {
      Rearrange(absl::StrCat(name, " re-ordered"), i, Moved(i, next, /*after=*/true));
    }
  }

  // The gather is missing, is done too early or too late, or its buffer is one that
  // was released before.
  void StaleGather(int i) {
    Rearrange("gather dropped", i, Without(i));
    for (int u = 0; u < count(); ++u) {
      if (at(u).operation != Operation::kUpdate || at(u).unit != at(i).unit) continue;
      if (!Chosen("gather on the wrong side of the update")) continue;
      // Only what the move leaves behind it is still waited for.
      const std::function<void(const Mutant&)> settle = [&](const Mutant& moved) {
        Plan plan = moved.plan;
        for (size_t n = 0; n < plan.instructions.size(); ++n) {
          std::vector<int>& waits = plan.instructions[n].waits;
          waits.erase(std::remove_if(waits.begin(), waits.end(),
                                     [&](int wait) { return wait >= static_cast<int>(n); }),
                      waits.end());
        }
        Emit("gather on the wrong side of the update", i, std::move(plan));
      };
      MutantMaker quiet(plan_, 0, 1, settle);
      quiet.Rearrange("", i, Moved(i, u, /*after=*/u > i));
    }
    for (int earlier = 0; earlier < i; ++earlier) {
      if (at(earlier).operation != Operation::kGatherParameters || at(earlier).unit != at(i).unit ||
          at(earlier).writes[0].buffer == at(i).writes[0].buffer) {
        continue;
      }
      if (!Chosen("released buffer read")) continue;
      Plan plan = plan_;
      for (Instruction& reader : plan.instructions) {
        for (Access& read : reader.reads) {
          if (read.buffer == at(i).writes[0].buffer) read.buffer = at(earlier).writes[0].buffer;
        }
      }
      Emit("released buffer read", i, std::move(plan));
    }
  }

  // A move from or to the buffer before or after its own, which may be as large: another
  // turn of a ring, another moment, another unit.
  void OtherBuffers(int i) {
    for (int by : {-1, 1}) {
      const auto other = [&](const std::string& kind, std::vector<Access> Instruction::*side) {
        const int buffer = (at(i).*side)[0].buffer + by;
        if (buffer < 0 || buffer >= static_cast<int>(plan_.buffers.size())) return;
        Edit(kind, i, [&](Instruction* changed) { (changed->*side)[0].buffer = buffer; });
      };
      other("moved from another", &Instruction::reads);
      other("moved to another", &Instruction::writes);
    }
  }

  void SwapCollective(int i) {
    int next = i + 1;
    while (next < count() && !IsCollective(at(next))) ++next;
    if (next < count()) Rearrange("collectives swapped", i, Swapped(i, next));
  }

  void Accesses(int i) {
    for (size_t r = 0; r < at(i).reads.size(); ++r) {
      Edit("read widened", i, [&](Instruction* changed) { changed->reads[r].bytes += kShift; });
      Edit("read widened", i, [&](Instruction* changed) {
        changed->reads[r].begin -= kShift;
        changed->reads[r].bytes += kShift;
      });
      if (at(i).reads[r].bytes == 0) continue;
      const int64_t cut = std::min(kShift, at(i).reads[r].bytes);
      Edit("read narrowed", i, [&](Instruction* changed) { changed->reads[r].bytes -= cut; });
      Edit("read narrowed", i, [&](Instruction* changed) {
        changed->reads[r].begin += cut;
        changed->reads[r].bytes -= cut;
      });
    }
    for (size_t w = 0; w < at(i).writes.size(); ++w) {
      if (at(i).writes[w].bytes == 0) continue;
      const int64_t cut = std::min(kShift, at(i).writes[w].bytes);
      Edit("write narrowed", i, [&](Instruction* changed) { changed->writes[w].bytes -= cut; });
      Edit("write shifted", i, [&](Instruction* changed) { changed->writes[w].begin += cut; });
    }
    for (size_t r = 0; r < at(i).reads.size(); ++r) {
      if (at(i).reads[r].role != Role::kSlot) continue;
      for (int by : {-1, 1}) {
        Edit("slot level", i, [&](Instruction* changed) { changed->reads[r].index += by; });
      }
    }
    for (size_t w = 0; w < at(i).writes.size(); ++w) {
      if (at(i).writes[w].role != Role::kSlot) continue;
      for (int by : {-1, 1}) {
        Edit("slot level", i, [&](Instruction* changed) { changed->writes[w].index += by; });
      }
    }
  }

  void Fields(int i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lane == static_cast<int>(at(i).lane)) continue;
      Edit("lane", i, [&](Instruction* changed) { changed->lane = static_cast<LaneKind>(lane); });
    }
    const auto number = [&](const std::string& kind, int Instruction::*field) {
      // Of a move they are names alone.
      if (at(i).*field < 0 || IsMove(at(i).operation)) return;
      for (int by : {-1, 1}) {
        Edit(kind, i, [&](Instruction* changed) { changed->*field += by; });
      }
    };
    number("unit", &Instruction::unit);
    number("call", &Instruction::call);
    number("parameter", &Instruction::parameter);
    number("micro-step", &Instruction::micro_step);
    for (int64_t by : {-kTileAlignment, kTileAlignment}) {
      if (at(i).elements == 0) continue;
      Edit("first element", i, [&](Instruction* changed) { changed->first += by; });
      Edit("elements", i, [&](Instruction* changed) { changed->elements += by; });
    }
    if (at(i).operation == Operation::kForward) {
      Edit("recompute", i, [&](Instruction* changed) { changed->recompute = !changed->recompute; });
    }
  }

  void Offsets() {
    for (size_t b = 0; b < plan_.buffers.size(); ++b) {
      const auto shift = [&](const std::string& kind, int64_t offset, int sparser = 1) {
        if (offset == plan_.buffers[b].offset || !Chosen(kind, sparser)) return;
        Plan plan = plan_;
        plan.buffers[b].offset = offset;
        visit_({kind, plan.buffers[b].name, std::move(plan)});
      };
      shift("offset shifted", plan_.buffers[b].offset + kShift);
      shift("offset shifted", plan_.buffers[b].offset - kShift);
      for (const Buffer& other : plan_.buffers) shift("offset of another", other.offset, 20);
      for (const Tier tier : kTiers) {
        if (plan_.buffers[b].tier == Tier::kDevice || plan_.buffers[b].tier == tier) continue;
        if (!Chosen("tier", 1)) continue;
        Plan plan = plan_;
        plan.buffers[b].tier = tier;
        visit_({"tier", plan.buffers[b].name, std::move(plan)});
      }
    }
  }

  const Plan& plan_;
  const int first_;
  const int stride_;
  const std::function<void(const Mutant&)>& visit_;
  std::map<std::string, int> number_;  // of mutants so far, by kind
};

}  // namespace

void ForEachMutant(const Plan& plan, int first, int stride,
                   const std::function<void(const Mutant&)>& visit) {
  MutantMaker(plan, first, stride, visit).Make();
}

}  // namespace tessera::testing
