#ifndef TESSERA_CORE_CONFIG_SCALAR_H_
#define TESSERA_CORE_CONFIG_SCALAR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Readers of plain values. Each takes the whole text or nothing: no rounding,
// no saturation, no second meaning.

// Decimal digits with an optional sign.
std::optional<int64_t> ParseInteger(absl::string_view text);

// A finite decimal number.
std::optional<double> ParseReal(absl::string_view text);

// Bytes: digits and an optional unit of B, KB, MB, GB, TB (powers of 1000) or
// KiB, MiB, GiB, TiB (powers of 1024), with or without a space between.
std::optional<int64_t> ParseSize(absl::string_view text);

// Exactly, in the largest unit that divides it: "64MiB", "1GB", "1000001B".
std::string FormatSize(int64_t bytes);

// The fewest characters to insert, delete, replace or swap with a neighbour that
// turn one text into the other.
int64_t EditDistance(absl::string_view a, absl::string_view b);

}  // namespace tessera

#endif  // TESSERA_CORE_CONFIG_SCALAR_H_
