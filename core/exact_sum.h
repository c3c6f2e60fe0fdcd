#ifndef TESSERA_CORE_EXACT_SUM_H_
#define TESSERA_CORE_EXACT_SUM_H_

#include <array>
#include <cstdint>

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

  void Add(double value);
  void Merge(const ExactSum& other);
  // The exact sum, rounded once to nearest, ties to even. An infinity or a NaN
  // if such was added.
  double Value() const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_EXACT_SUM_H_
