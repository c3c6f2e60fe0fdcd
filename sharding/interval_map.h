#ifndef TESSERA_SHARDING_INTERVAL_MAP_H_
#define TESSERA_SHARDING_INTERVAL_MAP_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

namespace tessera {

// A value for every byte of [0, infinity), stored as runs of equal bytes.
template <typename Value>
class IntervalMap {
 public:
  explicit IntervalMap(Value initial = Value()) { runs_.emplace(0, std::move(initial)); }

  // Calls visit(begin, end, value) for the runs inside [begin, end), in order.
  template <typename Visit>
  void ForEach(int64_t begin, int64_t end, Visit visit) const {
    if (begin >= end) return;
    auto run = std::prev(runs_.upper_bound(begin));
    for (; run != runs_.end() && run->first < end; ++run) {
      const auto next = std::next(run);
      const int64_t run_end = next == runs_.end() ? end : std::min(end, next->first);
      visit(std::max(begin, run->first), run_end, run->second);
    }
  }

  // Calls change(value&) for the runs inside [begin, end), cut at its borders.
  template <typename Change>
  void Update(int64_t begin, int64_t end, Change change) {
    if (begin >= end) return;
    Cut(end);
    for (auto run = Cut(begin); run != runs_.end() && run->first < end; ++run) change(run->second);
  }

  void Assign(int64_t begin, int64_t end, const Value& value) {
    if (begin >= end) return;
    Cut(end);
    auto run = Cut(begin);
    run->second = value;
    runs_.erase(std::next(run), runs_.lower_bound(end));
  }

 private:
  using Runs = std::map<int64_t, Value>;

  typename Runs::iterator Cut(int64_t at) {
    auto run = std::prev(runs_.upper_bound(at));
    if (run->first == at) return run;
    return runs_.emplace_hint(std::next(run), at, run->second);
  }

  Runs runs_;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_INTERVAL_MAP_H_
