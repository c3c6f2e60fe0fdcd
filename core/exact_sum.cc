#include "core/exact_sum.h"

#include <bit>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

constexpr int kNan = ExactSum::kLimbs;
constexpr int kPositiveInfinity = kNan + 1;
constexpr int kNegativeInfinity = kNan + 2;
constexpr uint64_t kLimbMask = 0xffffffffu;

// Makes every limb but the last a number in [0, 2^32): floor division by shifts.
template <size_t kSize>
void PropagateCarries(std::array<int64_t, kSize>& limbs) {
  for (size_t i = 0; i + 1 < kSize; ++i) {
    limbs[i + 1] += limbs[i] >> 32;
    limbs[i] &= static_cast<int64_t>(kLimbMask);
  }
}

}  // namespace

void ExactSum::Add(double value) {
  const Terms terms = TermsOf(value);
  for (int i = 0; i < Terms::kCount && terms.first + i < kWords; ++i) {
    words[terms.first + i] += terms.values[i];
  }
}

void ExactSum::Merge(const ExactSum& other) {
  for (int i = 0; i < kWords; ++i) words[i] += other.words[i];
}

double ExactSum::Value() const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool positive_infinity = words[kPositiveInfinity] != 0;
  const bool negative_infinity = words[kNegativeInfinity] != 0;
  if (words[kNan] != 0 || (positive_infinity && negative_infinity)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (positive_infinity) return kInfinity;
  if (negative_infinity) return -kInfinity;

  std::array<int64_t, kLimbs + 2> limbs{};  // two more for the carries
  for (int i = 0; i < kLimbs; ++i) limbs[i] = words[i];
  PropagateCarries(limbs);
  const bool negative = limbs.back() < 0;
  if (negative) {
    for (int64_t& limb : limbs) limb = -limb;
    PropagateCarries(limbs);
  }

  int top = static_cast<int>(limbs.size()) - 1;
  while (top >= 0 && limbs[top] == 0) --top;
  if (top < 0) return 0;
  const auto bit = [&](int position) {
    return position < 0 ? uint64_t{0}
                        : static_cast<uint64_t>(limbs[position / 32] >> position % 32) & 1;
  };
  const int width = static_cast<int>(std::bit_width(static_cast<uint64_t>(limbs[top])));
  const int first = top * 32 + width - 1;         // the most significant bit
  const int last = first >= 52 ? first - 52 : 0;  // the least that a double keeps
  uint64_t mantissa = 0;
  for (int position = first; position >= last; --position) mantissa = mantissa << 1 | bit(position);
  if (bit(last - 1) != 0) {
    bool above_half = false;
    for (int position = last - 2; position >= 0 && !above_half; --position) {
      above_half = bit(position) != 0;
    }
    if (above_half || mantissa % 2 != 0) ++mantissa;
  }
  const double magnitude = std::ldexp(static_cast<double>(mantissa), last - 1074);
  return negative ? -magnitude : magnitude;
}

}  // namespace tessera
