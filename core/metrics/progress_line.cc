#include "core/metrics/progress_line.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"

namespace tessera {
namespace {

std::string Scaled(double value, double base, absl::Span<const char* const> units) {
  size_t unit = 0;
  // What would round to a full next unit belongs there.
  while (unit + 1 < units.size() && value >= base * 0.9995) {
    value /= base;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%.0f%s", value, units[0]);
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f%s", decimals, value, units[unit]);
}

}  // namespace

std::string HumanBytes(double bytes) {
  return Scaled(bytes, 1024, {" B", " KiB", " MiB", " GiB", " TiB"});
}

std::string HumanCount(double count) { return Scaled(count, 1000, {"", "k", "M", "G", "T"}); }

std::string HumanDuration(double seconds) {
  constexpr double kLongest = 1e9;  // decades: not a prediction anymore
  if (!(seconds < kLongest)) return "?";
  if (seconds < 0.9995) return absl::StrFormat("%.0fms", seconds * 1e3);
  if (seconds < 59.95) return absl::StrFormat("%.1fs", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh%02dm", whole / 3600, whole / 60 % 60);
}

std::string ProgressLine(const Progress& progress) {
  const int width = static_cast<int>(absl::StrCat(progress.steps).size());
  std::string line = absl::StrFormat(
      "step %*d/%d  loss %.4f  lr %.2e  norm %.3f  %s tokens/s  mfu %.1f%%  exposed %s  sent %s",
      width, progress.step, progress.steps, progress.loss, progress.learning_rate,
      progress.grad_norm, HumanCount(progress.tokens_per_second), 100 * progress.mfu,
      HumanDuration(progress.exposed_communication_seconds),
      HumanBytes(static_cast<double>(progress.bytes_sent)));
  for (const auto& [tier, bytes] : progress.memory) {
    absl::StrAppend(&line, "  ", tier, " ", HumanBytes(static_cast<double>(bytes)));
  }
  return absl::StrCat(line, "  ", HumanDuration(progress.seconds_left), " left");
}

}  // namespace tessera
