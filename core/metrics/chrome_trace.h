#ifndef TESSERA_CORE_METRICS_CHROME_TRACE_H_
#define TESSERA_CORE_METRICS_CHROME_TRACE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tessera {

// Something that occupied a lane for a while; times are in microseconds.
struct TraceEvent {
  std::string name;
  std::string lane;
  double start_us = 0;
  double duration_us = 0;
};

// Writes events as a file for chrome://tracing or ui.perfetto.dev: `process` is the
// title, and every lane is a row, in order of first appearance.
absl::Status WriteChromeTrace(const std::string& path, const std::string& process,
                              absl::Span<const TraceEvent> events);

}  // namespace tessera

#endif  // TESSERA_CORE_METRICS_CHROME_TRACE_H_
