#include "core/config/scalar.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

struct Unit {
  absl::string_view name;
  int64_t bytes;
};

// Largest first.
constexpr Unit kUnits[] = {
    {"TiB", int64_t{1} << 40},
    {"TB", 1'000'000'000'000},
    {"GiB", int64_t{1} << 30},
    {"GB", 1'000'000'000},
    {"MiB", int64_t{1} << 20},
    {"MB", 1'000'000},
    {"KiB", int64_t{1} << 10},
    {"KB", 1'000},
    {"B", 1},
};

}  // namespace

std::optional<int64_t> ParseInteger(absl::string_view text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

std::optional<double> ParseReal(absl::string_view text) {
  // Hexadecimal is C's notation, not YAML's.
  if (text.find_first_of("xX") != absl::string_view::npos) return std::nullopt;
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseSize(absl::string_view text) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(text[digits])) ++digits;
  const std::optional<int64_t> count = ParseInteger(text.substr(0, digits));
  if (!count.has_value()) return std::nullopt;
  const absl::string_view name = absl::StripLeadingAsciiWhitespace(text.substr(digits));
  if (name.empty()) return count;
  for (const Unit& unit : kUnits) {
    int64_t bytes = 0;
    if (name != unit.name) continue;
    if (__builtin_mul_overflow(*count, unit.bytes, &bytes)) return std::nullopt;
    return bytes;
  }
  return std::nullopt;
}

std::string FormatSize(int64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.bytes && bytes % unit.bytes == 0) {
      return absl::StrCat(bytes / unit.bytes, unit.name);
    }
  }
  return absl::StrCat(bytes, "B");
}

int64_t EditDistance(absl::string_view a, absl::string_view b) {
  // rows[i][j]: the distance between the first i characters of a and j of b.
  std::vector<std::vector<int64_t>> rows(a.size() + 1, std::vector<int64_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) rows[i][0] = static_cast<int64_t>(i);
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<int64_t>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1,
                             rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

}  // namespace tessera
