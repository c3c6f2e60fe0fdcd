#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "sharding/build.h"
#include "sharding/happens_before.h"

namespace tessera {
namespace {

// Bounds the search for a placement, in pairs of buffers looked at.
constexpr int64_t kPlacementWork = 8'000'000;
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
// Orders that are derived from each first one.
constexpr int kStackTries = 10;

constexpr int kForever = std::numeric_limits<int>::max();

// Where a buffer stands in the lanes: by position, its last access in each lane, or
// -1; and how much of each lane is complete before any access to it starts.
struct LaneOrder {
  std::array<int, kLanes> latest;
  std::array<int, kLanes> complete;

  LaneOrder() {
    latest.fill(-1);
    complete.fill(kForever);
  }

  bool EndsBefore(const LaneOrder& other) const {
    for (int lane = 0; lane < kLanes; ++lane) {
      if (latest[lane] >= other.complete[lane]) return false;
    }
    return true;
  }
};

std::vector<LaneOrder> LaneOrdersOf(const Plan& plan) {
  const HappensBefore order(plan);
  std::vector<LaneOrder> orders(plan.buffers.size());
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    const int self = static_cast<int>(i);
    for (const auto* accesses : {&instruction.reads, &instruction.writes}) {
      for (const Access& access : *accesses) {
        LaneOrder& buffer = orders[access.buffer];
        for (int lane = 0; lane < kLanes; ++lane) {
          const bool own = lane == static_cast<int>(instruction.lane);
          const int before = order.Complete(self, static_cast<LaneKind>(lane)) - (own ? 1 : 0);
          buffer.complete[lane] = std::min(buffer.complete[lane], before);
          if (own) buffer.latest[lane] = order.Position(self);
        }
      }
    }
  }
  return orders;
}

// A buffer that does not live across steps, as something to find room for.
struct Item {
  int buffer = 0;
  int64_t bytes = 0;  // aligned, not 0
  Lifetime lifetime;
  LaneOrder order;
  int64_t crowd = 0;            // the most bytes that are alive at once in its lifetime
  std::vector<int> neighbours;  // items that are alive together with it

  int64_t length() const { return int64_t{lifetime.end} - lifetime.begin; }
};

struct Placement {
  std::vector<int64_t> offsets;  // by item
  int64_t peak = kUnbounded;
};

// Searches for offsets whose peak is near the most bytes that are alive at once,
// below which there is none. First it stacks the items in several orders: they are
// put down one by one, each at the lowest offset where it meets no neighbour. The
// best stack is then squeezed (ejection search: Nagata and Braysy, "A powerful route
// minimization heuristic for the vehicle routing problem with time windows", 2009).
class Placer {
 public:
  // Does not search for less than `slack` above the most bytes that are alive at once.
  Placer(std::vector<Item> items, int64_t base, int64_t granule, int64_t slack)
      : granule_(granule), items_(std::move(items)) {
    FindCrowds();
    // 1.6% is within what the design allows, and far quicker to find than the least.
    const int64_t allowed = (base + most_alive_) / 64 / granule_ * granule_;
    good_enough_ = most_alive_ + std::max(slack, allowed);
    FindNeighbours();
  }

  // No order is best for every plan. Most promising is to begin with what is alive
  // at the fullest moment, since that leaves no gap there.
  const Placement& Search() {
    const auto by = [&](auto key) {
      return [this, key](int a, int b) { return key(items_[a]) > key(items_[b]); };
    };
    Stack(by([](const Item& i) { return std::make_tuple(i.crowd, i.length()); }));
    Stack(by([](const Item& i) { return std::make_tuple(i.crowd, i.bytes); }));
    Stack(by([](const Item& i) { return i.bytes; }));
    Stack(by([](const Item& i) { return i.length(); }));
    Stack(by([](const Item& i) { return -i.lifetime.begin; }));
    for (int64_t limit = good_enough_; best_.peak > good_enough_ && work_ < kPlacementWork;) {
      const bool done = Squeeze(limit, work_ + kPlacementWork / 8);
      limit = done ? good_enough_ : limit + (best_.peak - limit) / 2 / granule_ * granule_;
    }
    return best_;
  }

 private:
  // The bytes that are alive from each point at which they change.
  void FindCrowds() {
    std::map<int, int64_t> alive;
    for (const Item& item : items_) {
      alive[item.lifetime.begin] += item.bytes;
      alive[item.lifetime.end] -= item.bytes;
    }
    int64_t sum = 0;
    for (auto at = alive.begin(); at != alive.end(); ++at) {
      at->second = sum += at->second;
      // While a compute instruction runs, which is at odd points, what lives is known
      // exactly; between them, buffers of other lanes may seem to meet that do not.
      const auto next = std::next(at);
      const bool exact = at->first % 2 == 1 || (next != alive.end() && next->first > at->first + 1);
      if (exact) most_alive_ = std::max(most_alive_, sum);
    }
    for (Item& item : items_) {
      most_alive_ = std::max(most_alive_, item.bytes);
      for (auto at = alive.find(item.lifetime.begin); at->first < item.lifetime.end; ++at) {
        item.crowd = std::max(item.crowd, at->second);
      }
    }
  }

  void FindNeighbours() {
    std::vector<int> by_begin(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) by_begin[i] = static_cast<int>(i);
    std::stable_sort(by_begin.begin(), by_begin.end(), [&](int a, int b) {
      return items_[a].lifetime.begin < items_[b].lifetime.begin;
    });
    std::vector<int> alive;
    for (int i : by_begin) {
      const int begin = items_[i].lifetime.begin;
      alive.erase(std::remove_if(alive.begin(), alive.end(),
                                 [&](int other) { return items_[other].lifetime.end <= begin; }),
                  alive.end());
      for (int other : alive) {
        if (items_[other].order.EndsBefore(items_[i].order) ||
            items_[i].order.EndsBefore(items_[other].order)) {
          continue;
        }
        items_[i].neighbours.push_back(other);
        items_[other].neighbours.push_back(i);
      }
      alive.push_back(i);
    }
  }

  // The neighbours that stand already, by offset, in taken_.
  void FindTaken(const Item& item, const std::vector<int64_t>& offsets) {
    taken_.clear();
    for (int other : item.neighbours) {
      if (offsets[other] >= 0) taken_.push_back({offsets[other], other});
    }
    work_ += 1 + static_cast<int64_t>(item.neighbours.size());
    std::sort(taken_.begin(), taken_.end());
  }

  int64_t LowestFit(const Item& item, const std::vector<int64_t>& offsets) {
    FindTaken(item, offsets);
    int64_t at = 0;
    for (const auto& [offset, other] : taken_) {
      if (offset >= at + item.bytes) break;
      at = std::max(at, offset + items_[other].bytes);
    }
    return at;
  }

  // Whenever an order ends above the goal, what lies on top goes first next time.
  template <typename Less>
  void Stack(Less less) {
    std::vector<int> order(items_.size());
    for (size_t i = 0; i < items_.size(); ++i) order[i] = static_cast<int>(i);
    std::stable_sort(order.begin(), order.end(), less);
    for (int tries = 0; tries < kStackTries && best_.peak > good_enough_ && work_ < kPlacementWork;
         ++tries) {
      Placement placement;
      placement.offsets.assign(items_.size(), -1);
      placement.peak = 0;
      for (int i : order) {
        placement.offsets[i] = LowestFit(items_[i], placement.offsets);
        placement.peak = std::max(placement.peak, placement.offsets[i] + items_[i].bytes);
      }
      std::stable_partition(order.begin(), order.end(), [&](int i) {
        return placement.offsets[i] + items_[i].bytes == placement.peak;
      });
      if (placement.peak < best_.peak) best_ = std::move(placement);
    }
  }

  // Tries to bring the best placement down to `limit`: takes away what stands above it
  // and puts it down again, if need be in the place of others, which are put down
  // again in turn. An item that often found no room is not lightly taken away.
  bool Squeeze(int64_t limit, int64_t work_limit) {
    std::vector<int64_t> offsets = best_.offsets;
    std::vector<int64_t> difficulty(items_.size(), 1);
    std::vector<int> homeless;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (offsets[i] + items_[i].bytes <= limit) continue;
      offsets[i] = -1;
      homeless.push_back(static_cast<int>(i));
    }
    while (!homeless.empty()) {
      if (work_ > work_limit) return false;
      const int i = homeless.back();
      homeless.pop_back();
      const Item& item = items_[i];
      const int64_t fit = LowestFit(item, offsets);
      if (fit + item.bytes <= limit) {
        offsets[i] = fit;
        continue;
      }
      ++difficulty[i];
      const int64_t at = EasiestToClear(item, limit, difficulty);
      for (const auto& [offset, other] : taken_) {
        if (offset >= at + item.bytes || offset + items_[other].bytes <= at) continue;
        offsets[other] = -1;
        homeless.push_back(other);
      }
      offsets[i] = at;
    }
    best_.offsets = std::move(offsets);
    best_.peak = 0;
    for (size_t i = 0; i < items_.size(); ++i) {
      best_.peak = std::max(best_.peak, best_.offsets[i] + items_[i].bytes);
    }
    return true;
  }

  // The offset for the item at which what taken_ has there is the least difficult.
  int64_t EasiestToClear(const Item& item, int64_t limit, const std::vector<int64_t>& difficulty) {
    // Another is in the way of every `at` in [offset - item.bytes + 1, its end).
    changes_.clear();
    changes_.emplace_back(0, 0);
    int64_t sum = 0;
    const int64_t last = limit - item.bytes;
    for (const auto& [offset, other] : taken_) {
      const int64_t begin = offset - item.bytes + granule_;
      const int64_t end = offset + items_[other].bytes;
      if (begin > 0) changes_.emplace_back(begin, difficulty[other]);
      if (begin <= 0) sum += difficulty[other];
      if (end <= last) changes_.emplace_back(end, -difficulty[other]);
    }
    work_ += std::ssize(taken_);
    std::sort(changes_.begin(), changes_.end());
    int64_t best = 0;
    int64_t least = kUnbounded;
    for (size_t c = 0; c < changes_.size() && changes_[c].first <= last; ++c) {
      sum += changes_[c].second;
      if (c + 1 < changes_.size() && changes_[c + 1].first == changes_[c].first) continue;
      if (sum > least || (sum == least && lot_() % 2 == 0)) continue;
      least = sum;
      best = changes_[c].first;
    }
    return best;
  }

  const int64_t granule_;  // of sizes and offsets
  std::vector<Item> items_;
  int64_t most_alive_ = 0;
  int64_t good_enough_ = 0;
  int64_t work_ = 0;
  Placement best_;
  std::minstd_rand lot_;
  std::vector<std::pair<int64_t, int>> taken_;
  std::vector<std::pair<int64_t, int64_t>> changes_;
};

void PlaceTier(Tier tier, const std::vector<Lifetime>& lifetimes,
               const std::vector<LaneOrder>& orders, Plan* plan) {
  const int64_t granule = GranuleOf(plan->options, tier);
  std::vector<Item> items;
  int64_t base = 0;
  for (size_t b = 0; b < plan->buffers.size(); ++b) {
    Buffer& buffer = plan->buffers[b];
    if (buffer.tier != tier) continue;
    if (buffer.persistent) {
      buffer.offset = base;
      base += RoundedUp(buffer.bytes, granule);
    } else if (buffer.bytes > 0 && lifetimes[b].begin < lifetimes[b].end) {
      Item& item = items.emplace_back();
      item.buffer = static_cast<int>(b);
      item.bytes = RoundedUp(buffer.bytes, granule);
      item.lifetime = lifetimes[b];
      item.order = orders[b];
    }
  }
  for (Buffer& buffer : plan->buffers) {
    if (buffer.tier == tier && !buffer.persistent) buffer.offset = base;
  }
  plan->arena_bytes[tier] = base;
  if (items.empty()) return;
  std::vector<int> buffers;
  buffers.reserve(items.size());
  for (const Item& item : items) buffers.push_back(item.buffer);
  // The host's few scalars are not worth a search.
  constexpr int64_t kPage = 4096;
  Placer placer(std::move(items), base, granule, tier == Tier::kHost ? kPage : 0);
  const Placement& placement = placer.Search();
  for (size_t i = 0; i < buffers.size(); ++i) {
    plan->buffers[buffers[i]].offset += placement.offsets[i];
  }
  plan->arena_bytes[tier] += placement.peak;
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
  const std::vector<LaneOrder> orders = LaneOrdersOf(*plan);
  for (const Tier tier : kTiers) PlaceTier(tier, lifetimes, orders, plan);
}

}  // namespace tessera
