#ifndef TESSERA_TOOLS_BENCH_GOAL_H_
#define TESSERA_TOOLS_BENCH_GOAL_H_

#include <cstdio>
#include <string>

#include "absl/strings/str_format.h"

namespace tessera {

// Whether a ratio is at least, or else at most, what it is to be.
inline bool MeetsGoal(double ratio, double goal, bool at_least) {
  return at_least ? ratio >= goal : ratio <= goal;
}

// "goal at least 0.60: met".
inline std::string GoalText(double ratio, double goal, bool at_least) {
  return absl::StrFormat("goal %s %.2f: %s", at_least ? "at least" : "at most", goal,
                         MeetsGoal(ratio, goal, at_least) ? "met" : "missed");
}

// A line of a report.
inline void PrintGoal(double ratio, double goal, bool at_least) {
  std::printf("  ratio %.3f, %s\n", ratio, GoalText(ratio, goal, at_least).c_str());
}

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_GOAL_H_
