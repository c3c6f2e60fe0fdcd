#ifndef TESSERA_TOOLS_BENCH_GPU_REPORT_H_
#define TESSERA_TOOLS_BENCH_GPU_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "tools/bench/goal.h"
#include "tools/bench/spread.h"

namespace tessera {

// Something that was measured, and what it is compared with.
struct GpuFigure {
  std::string name;          // "attention_forward"
  std::string unit = {};     // "flop/s"; empty for a share
  Spread value = {};         // over the rounds
  std::string against = {};  // the ceiling's name; empty for none
  double ceiling = 0;        // in the same unit, the median of the same rounds
  // Of the ratio to the ceiling, or of the value without one: at least, or at most.
  std::optional<double> goal = std::nullopt;
  bool at_least = true;

  double ratio() const { return against.empty() ? value.median : value.median / ceiling; }
  bool met() const { return !goal || MeetsGoal(ratio(), *goal, at_least); }
};

// Prints figures as they come, a line each, and keeps them.
class GpuReport {
 public:
  void Title(const std::string& text);
  void Note(const std::string& text);
  void Add(const GpuFigure& figure);
  // Beside the figures, in the file alone.
  void Fact(const std::string& name, nlohmann::json value) { facts_[name] = std::move(value); }
  // "7 of 9 goals met".
  void PrintSummary() const;

  const std::vector<GpuFigure>& figures() const { return figures_; }
  // {"device": ..., "figures": [{"name": ..., "value": ..., ...}], "goals": 9, "met": 7}
  nlohmann::json ToJson() const;

 private:
  int goals() const;
  int goals_met() const;

  std::vector<GpuFigure> figures_;
  nlohmann::json facts_ = nlohmann::json::object();
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_GPU_REPORT_H_
