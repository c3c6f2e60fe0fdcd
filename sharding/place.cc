#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "sharding/build.h"
#include "sharding/happens_before.h"

namespace tessera {
namespace {

constexpr int64_t kAlignment = 64;
// Bounds the tries of a placement, in pairs of buffers looked at.
constexpr int64_t kPlacementWork = 20'000'000;
constexpr int kForever = std::numeric_limits<int>::max();

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Puts the buffers down one by one, in the given order, each at the lowest
// offset from `base` where it meets no buffer that is alive together with it.
int64_t FirstFit(const std::vector<Buffer>& buffers, const std::vector<Lifetime>& lifetimes,
                 const std::vector<int>& order, int64_t base, std::vector<int64_t>* offsets) {
  std::vector<int> placed;  // by offset
  int64_t peak = base;
  for (int b : order) {
    const int64_t bytes = Aligned(buffers[b].bytes);
    int64_t at = base;
    for (int other : placed) {
      if (lifetimes[other].end <= lifetimes[b].begin ||
          lifetimes[b].end <= lifetimes[other].begin) {
        continue;
      }
      if ((*offsets)[other] >= at + bytes) break;
      at = std::max(at, (*offsets)[other] + Aligned(buffers[other].bytes));
    }
    (*offsets)[b] = at;
    peak = std::max(peak, at + bytes);
    const auto position = std::upper_bound(placed.begin(), placed.end(), at,
                                           [&](int64_t v, int o) { return v < (*offsets)[o]; });
    placed.insert(position, b);
  }
  return peak;
}

struct Placement {
  std::vector<int64_t> offsets;
  int64_t peak = 0;
};

// The bytes of passing buffers that are alive from each point at which that changes.
std::map<int, int64_t> AliveOver(const Plan& plan, const std::vector<Lifetime>& lifetimes) {
  std::map<int, int64_t> alive;
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].persistent || lifetimes[b].begin >= lifetimes[b].end) continue;
    alive[lifetimes[b].begin] += Aligned(plan.buffers[b].bytes);
    alive[lifetimes[b].end] -= Aligned(plan.buffers[b].bytes);
  }
  int64_t sum = 0;
  for (auto& [point, bytes] : alive) bytes = sum += bytes;
  return alive;
}

int64_t MostIn(const std::map<int, int64_t>& alive, const Lifetime& lifetime) {
  int64_t most = 0;
  for (auto at = alive.lower_bound(lifetime.begin); at != alive.end() && at->first < lifetime.end;
       ++at) {
    most = std::max(most, at->second);
  }
  return most;
}

}  // namespace

// A buffer's first access by compute instruction p begins its life at 2p + 1; by
// another lane's instruction that runs after the first c compute instructions,
// at 2c. A last access by compute instruction p ends it at 2p + 2; by another
// lane's instruction for which compute instruction s waits, at 2s + 1. Then
// end <= begin says exactly that the lanes' order keeps the two apart.
std::vector<Lifetime> LifetimesOf(const Plan& plan) {
  const HappensBefore order(plan);
  const size_t count = plan.instructions.size();

  // For each instruction, the first compute instruction that starts after it:
  // the first whose knowledge of the instruction's lane reaches it.
  std::vector<std::vector<int>> known(kLanes);  // per lane: known after compute p
  for (size_t i = 0; i < count; ++i) {
    if (plan.instructions[i].lane != LaneKind::kCompute) continue;
    for (int lane = 0; lane < kLanes; ++lane) {
      known[lane].push_back(order.Complete(static_cast<int>(i), static_cast<LaneKind>(lane)));
    }
  }
  std::vector<Lifetime> lifetimes(plan.buffers.size(), Lifetime{kForever, 0});
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = plan.instructions[i];
    const int self = static_cast<int>(i);
    Lifetime span;
    if (instruction.lane == LaneKind::kCompute) {
      span = {2 * order.Position(self) + 1, 2 * order.Position(self) + 2};
    } else {
      const std::vector<int>& lane = known[static_cast<int>(instruction.lane)];
      const auto successor = std::upper_bound(lane.begin(), lane.end(), order.Position(self));
      span.begin = 2 * order.Complete(self, LaneKind::kCompute);
      span.end =
          successor == lane.end() ? kForever : 2 * static_cast<int>(successor - lane.begin()) + 1;
    }
    for (const auto* accesses : {&instruction.reads, &instruction.writes}) {
      for (const Access& access : *accesses) {
        Lifetime& lifetime = lifetimes[access.buffer];
        lifetime.begin = std::min(lifetime.begin, span.begin);
        lifetime.end = std::max(lifetime.end, span.end);
      }
    }
  }
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    if (plan.buffers[b].persistent) lifetimes[b] = {0, kForever};
    if (lifetimes[b].begin == kForever) lifetimes[b] = {0, 0};
  }
  return lifetimes;
}

void Place(Plan* plan) {
  const std::vector<Lifetime> lifetimes = LifetimesOf(*plan);
  std::vector<int> transient;
  std::vector<int64_t> offsets(plan->buffers.size(), 0);
  int64_t base = 0;
  for (size_t b = 0; b < plan->buffers.size(); ++b) {
    if (plan->buffers[b].persistent) {
      offsets[b] = base;
      base += Aligned(plan->buffers[b].bytes);
    } else {
      transient.push_back(static_cast<int>(b));
    }
  }

  for (size_t b = 0; b < plan->buffers.size(); ++b) plan->buffers[b].offset = offsets[b];

  if (transient.empty()) {
    plan->arena_bytes = base;
    return;
  }
  // No order is best for every plan, so several are tried, as long as the plan is
  // small enough. Most promising: what is alive at the fullest moment first, since
  // that stacks without a gap. Whenever an order ends above the bytes that are
  // alive at once, what lies on top goes first next time.
  const std::map<int, int64_t> alive = AliveOver(*plan, lifetimes);
  const int64_t goal = base + MostIn(alive, {0, kForever});
  std::vector<int64_t> crowd(plan->buffers.size());
  for (int b : transient) crowd[b] = MostIn(alive, lifetimes[b]);
  const auto bytes = [&](int b) { return plan->buffers[b].bytes; };
  const auto length = [&](int b) { return int64_t{lifetimes[b].end} - lifetimes[b].begin; };
  Placement best;
  best.peak = std::numeric_limits<int64_t>::max();
  const int64_t size = static_cast<int64_t>(transient.size());
  const int64_t tries = std::clamp<int64_t>(kPlacementWork / (size * size), 1, 60);
  const auto try_sorted = [&](auto less) {
    std::vector<int> order = transient;
    std::stable_sort(order.begin(), order.end(), less);
    for (int64_t t = 0; t < tries && best.peak > goal; ++t) {
      Placement candidate = {offsets, 0};
      candidate.peak = FirstFit(plan->buffers, lifetimes, order, base, &candidate.offsets);
      std::stable_partition(order.begin(), order.end(), [&](int b) {
        return candidate.offsets[b] + Aligned(bytes(b)) == candidate.peak;
      });
      if (candidate.peak < best.peak) best = std::move(candidate);
    }
  };
  try_sorted([&](int a, int b) {
    return std::make_tuple(crowd[a], length(a)) > std::make_tuple(crowd[b], length(b));
  });
  try_sorted([&](int a, int b) {
    return std::make_tuple(crowd[a], bytes(a)) > std::make_tuple(crowd[b], bytes(b));
  });
  try_sorted([&](int a, int b) { return bytes(a) > bytes(b); });
  try_sorted([&](int a, int b) { return length(a) > length(b); });
  try_sorted([&](int a, int b) { return lifetimes[a].begin < lifetimes[b].begin; });
  for (int b : transient) plan->buffers[b].offset = best.offsets[b];
  plan->arena_bytes = best.peak;
}

}  // namespace tessera
