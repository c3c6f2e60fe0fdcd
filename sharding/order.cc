#include <algorithm>
#include <array>

#include "sharding/build.h"
#include "sharding/happens_before.h"
#include "sharding/interval_map.h"

namespace tessera {
namespace {

// The latest instruction of each lane, or -1.
using PerLane = std::array<int, kLanes>;

PerLane None() {
  PerLane none;
  none.fill(-1);
  return none;
}

struct Touched {
  int writer = -1;
  PerLane readers = None();
};

// Keeps the waits that none of the others implies. `complete` is what is known
// without any wait, and is brought up to date.
std::vector<int> Reduce(const std::vector<std::array<int, kLanes>>& complete_of,
                        const std::vector<int>& position, const PerLane& latest,
                        std::array<int, kLanes>* complete) {
  std::vector<int> waits;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int wait = latest[lane];
    if (wait < 0 || (*complete)[lane] > position[wait]) continue;
    const bool implied = std::any_of(latest.begin(), latest.end(), [&](int other) {
      return other >= 0 && other != wait && complete_of[other][lane] > position[wait];
    });
    if (!implied) waits.push_back(wait);
  }
  for (int wait : waits) {
    for (int l = 0; l < kLanes; ++l) {
      (*complete)[l] = std::max((*complete)[l], complete_of[wait][l]);
    }
  }
  std::sort(waits.begin(), waits.end());
  return waits;
}

}  // namespace

void Order(Plan* plan) {
  std::vector<IntervalMap<Touched>> touched(plan->buffers.size());
  std::vector<std::array<int, kLanes>> complete(plan->instructions.size());
  std::vector<int> position(plan->instructions.size());
  PerLane last = None();
  std::array<int, kLanes> length = {};

  for (size_t i = 0; i < plan->instructions.size(); ++i) {
    Instruction& instruction = plan->instructions[i];
    const int lane = static_cast<int>(instruction.lane);
    PerLane latest = None();
    const auto after = [&](int other) {
      if (other < 0) return;
      int& known = latest[static_cast<int>(plan->instructions[other].lane)];
      known = std::max(known, other);
    };
    for (int wait : instruction.waits) after(wait);
    for (const Access& access : instruction.reads) {
      ForEachConflictRange(plan->buffers[access.buffer], access, [&](int64_t begin, int64_t end) {
        touched[access.buffer].Update(begin, end, [&](Touched& run) {
          after(run.writer);
          run.readers[lane] = static_cast<int>(i);
        });
      });
    }
    for (const Access& access : instruction.writes) {
      ForEachConflictRange(plan->buffers[access.buffer], access, [&](int64_t begin, int64_t end) {
        touched[access.buffer].ForEach(begin, end, [&](int64_t, int64_t, const Touched& run) {
          after(run.writer);
          for (int reader : run.readers) {
            if (reader != static_cast<int>(i)) after(reader);
          }
        });
        Touched written;
        written.writer = static_cast<int>(i);
        touched[access.buffer].Assign(begin, end, written);
      });
    }
    if (last[lane] >= 0) complete[i] = complete[last[lane]];
    latest[lane] = -1;
    instruction.waits = Reduce(complete, position, latest, &complete[i]);
    position[i] = length[lane]++;
    complete[i][lane] = length[lane];
    last[lane] = static_cast<int>(i);
  }
}

}  // namespace tessera
