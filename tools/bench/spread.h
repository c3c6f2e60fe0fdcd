#ifndef TESSERA_TOOLS_BENCH_SPREAD_H_
#define TESSERA_TOOLS_BENCH_SPREAD_H_

#include <algorithm>
#include <chrono>
#include <vector>

namespace tessera {

// Of values that were measured in several rounds.
struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

inline Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values.front(), values.back()};
}

inline double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_SPREAD_H_
