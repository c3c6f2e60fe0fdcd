#include "core/metrics/chrome_trace.h"

#include <map>

#include "core/atomic_file.h"
#include "nlohmann/json.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// The format's way to give a process ("process_name") or a lane ("thread_name")
// its title.
Json Title(const char* what, int row, const std::string& title) {
  return {{"ph", "M"}, {"pid", 0}, {"tid", row}, {"name", what}, {"args", {{"name", title}}}};
}

}  // namespace

absl::Status WriteChromeTrace(const std::string& path, const std::string& process,
                              absl::Span<const TraceEvent> events) {
  Json rows = Json::array({Title("process_name", 0, process)});
  std::map<std::string, int> row_of_lane;
  for (const TraceEvent& event : events) {
    const auto [lane, is_new] =
        row_of_lane.emplace(event.lane, static_cast<int>(row_of_lane.size()));
    if (is_new) rows.push_back(Title("thread_name", lane->second, event.lane));
    rows.push_back({{"ph", "X"},
                    {"pid", 0},
                    {"tid", lane->second},
                    {"name", event.name},
                    {"ts", event.start_us},
                    {"dur", event.duration_us}});
  }
  return WriteFileAtomically(path, Json{{"traceEvents", rows}}.dump());
}

}  // namespace tessera
