#ifndef TESSERA_CORE_EXACT_SUM_H_
#define TESSERA_CORE_EXACT_SUM_H_

#include <array>
#include <cstdint>
#include <cstring>

#include "core/host_device.h"

namespace tessera {

// The sum of any doubles without rounding, so that their order does not matter:
// a fixed-point number that covers every double (Kulisch's accumulator), cut into
// limbs of 32 bits that are held in 64, so that carries can wait. Plain words:
// zeroed memory is an empty sum, and adding the words of two sums, on any ranks,
// adds the sums. Exact for up to 2^30 additions in total.
struct ExactSum {
  static constexpr int kLimbs = 66;  // bits 2^-1074 .. 2^1037
  static constexpr int kWords = kLimbs + 3;

  // Limbs, least significant first, then how many NaNs, +infinities and
  // -infinities were added.
  std::array<int64_t, kWords> words{};

  // A double as what it adds: values[i] to words[first + i].
  struct Terms {
    static constexpr int kCount = 3;
    int first = 0;
    int64_t values[kCount] = {};
  };
  TESSERA_HOST_DEVICE static Terms TermsOf(double value);

  void Add(double value);
  void Merge(const ExactSum& other);
  // The exact sum, rounded once to nearest, ties to even. An infinity or a NaN
  // if such was added.
  double Value() const;
};

TESSERA_HOST_DEVICE inline ExactSum::Terms ExactSum::TermsOf(double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  const bool negative = bits >> 63 != 0;
  if (exponent == 0x7ff) {
    // The counts follow the limbs: NaNs, +infinities, -infinities.
    return {kLimbs + (mantissa != 0 ? 0 : negative ? 2 : 1), {1}};
  }
  if (exponent != 0) mantissa |= uint64_t{1} << 52;
  // value = mantissa * 2^(position - 1074)
  const int position = exponent == 0 ? 0 : exponent - 1;
  const int shift = position % 32;
  const uint64_t low = (mantissa & 0xffffffffu) << shift;
  const uint64_t high = ((mantissa >> 32) << shift) + (low >> 32);
  const int64_t sign = negative ? -1 : 1;
  return {
      position / 32,
      {sign * static_cast<int64_t>(low & 0xffffffffu),
       sign * static_cast<int64_t>(high & 0xffffffffu), sign * static_cast<int64_t>(high >> 32)}};
}

}  // namespace tessera

#endif  // TESSERA_CORE_EXACT_SUM_H_
