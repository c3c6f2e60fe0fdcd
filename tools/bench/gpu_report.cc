#include "tools/bench/gpu_report.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "core/metrics/progress_line.h"

namespace tessera {

void GpuReport::Title(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void GpuReport::Note(const std::string& text) { Title(absl::StrCat("  ", text)); }

void GpuReport::Add(const GpuFigure& figure) {
  figures_.push_back(figure);
  std::printf("  %-24s", figure.name.c_str());
  if (!figure.unit.empty()) {
    std::printf(" %s%s", HumanCount(figure.value.median).c_str(), figure.unit.c_str());
  }
  if (!figure.against.empty()) {
    std::printf(", ratio %.3f of %s", figure.ratio(), figure.against.c_str());
  } else if (figure.unit.empty()) {
    std::printf(" %.3f", figure.ratio());
  }
  if (figure.goal) {
    std::printf(", %s", GoalText(figure.ratio(), *figure.goal, figure.at_least).c_str());
  }
  std::printf("\n");
  std::fflush(stdout);
}

int GpuReport::goals() const {
  return static_cast<int>(
      std::count_if(figures_.begin(), figures_.end(), [](const auto& f) { return f.goal; }));
}

int GpuReport::goals_met() const {
  return static_cast<int>(std::count_if(figures_.begin(), figures_.end(),
                                        [](const auto& f) { return f.goal && f.met(); }));
}

void GpuReport::PrintSummary() const { std::printf("%d of %d goals met\n", goals_met(), goals()); }

nlohmann::json GpuReport::ToJson() const {
  nlohmann::json json = facts_;
  json["goals"] = goals();
  json["met"] = goals_met();
  json["figures"] = nlohmann::json::array();
  for (const GpuFigure& figure : figures_) {
    nlohmann::json entry = {{"name", figure.name},          {"unit", figure.unit},
                            {"value", figure.value.median}, {"least", figure.value.least},
                            {"most", figure.value.most},    {"ratio", figure.ratio()}};
    if (!figure.against.empty()) {
      entry["against"] = figure.against;
      entry["ceiling"] = figure.ceiling;
    }
    if (figure.goal) {
      entry["goal"] = *figure.goal;
      entry["at_least"] = figure.at_least;
      entry["met"] = figure.met();
    }
    json["figures"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace tessera
