#ifndef TESSERA_CORE_METRICS_PROGRESS_LINE_H_
#define TESSERA_CORE_METRICS_PROGRESS_LINE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera {

// For people to read, three digits or so: "3.25 MiB".
std::string HumanBytes(double bytes);
// "45.2k"
std::string HumanCount(double count);
// "12ms", "4.2s", "3m07s", "2h05m"
std::string HumanDuration(double seconds);

// What is known after a training step.
struct Progress {
  int64_t step = 0;  // done so far
  int64_t steps = 0;
  double loss = 0;
  double learning_rate = 0;
  double grad_norm = 0;
  double tokens_per_second = 0;
  double mfu = 0;  // share of the peak, 0 to 1
  double exposed_communication_seconds = 0;
  int64_t bytes_sent = 0;
  std::vector<std::pair<std::string, int64_t>> memory;  // bytes of each tier
  double seconds_left = 0;
};

// All of it in one line, without the line's end.
std::string ProgressLine(const Progress& progress);

}  // namespace tessera

#endif  // TESSERA_CORE_METRICS_PROGRESS_LINE_H_
