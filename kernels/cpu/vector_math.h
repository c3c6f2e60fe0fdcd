#ifndef TESSERA_KERNELS_CPU_VECTOR_MATH_H_
#define TESSERA_KERNELS_CPU_VECTOR_MATH_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/dtype.h"

namespace tessera::kernels {

// Functions without branches or calls, so that loops over them vectorise, and
// without fusing that is not written, so that every compiler gives the same bits.

// e^x within 2 units in the last place; 0 below the range of normal numbers, e^88
// above x = 88. A NaN stays one.
//
// x = n ln 2 + r with |r| <= ln(2) / 2, the subtraction in two steps (Cody and
// Waite), e^r by its Taylor polynomial, 2^n by the exponent's bits.
inline float Exp(float x) {
  constexpr float kLowest = -87.33654f;  // ln of the smallest normal number
  constexpr float kHighest = 88.0f;
  constexpr float kRound = 0x1.8p23f;  // adding it rounds to an integer, in its low bits
  constexpr float kLn2High = 0x1.62e4p-1f;
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  const float clamped = x > kHighest ? kHighest : x;
  const float shifted = std::fma(clamped, 0x1.715476p0f, kRound);
  const float n = shifted - kRound;
  float r = std::fma(n, -kLn2High, clamped);
  r = std::fma(n, -kLn2Low, r);
  float p = 1.0f / 5040;
  p = std::fma(p, r, 1.0f / 720);
  p = std::fma(p, r, 1.0f / 120);
  p = std::fma(p, r, 1.0f / 24);
  p = std::fma(p, r, 1.0f / 6);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  const uint32_t exponent = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  const float result = p * std::bit_cast<float>(exponent);
  // A mask, where a second selection would become a branch.
  const uint32_t normal = 0u - static_cast<uint32_t>(!(x < kLowest));
  return std::bit_cast<float>(std::bit_cast<uint32_t>(result) & normal);
}

inline float ToFloat(float value) { return value; }
inline float ToFloat(BFloat16 value) { return static_cast<float>(value); }

// Sums and maxima keep this many running values, which makes them vectorise in
// an order that the code fixes.
inline constexpr int64_t kRunning = 16;

// Recursion, since a loop over widths stays a loop.
template <int64_t kWidth, typename Combine>
void FoldHalves(float* values, Combine combine) {
  for (int64_t l = 0; l < kWidth; ++l) values[l] = combine(values[l], values[l + kWidth]);
  if constexpr (kWidth > 1) FoldHalves<kWidth / 2>(values, combine);
}

// combine(...combine(initial, value(0))..., value(count - 1)), in a fixed order.
template <typename Value, typename Combine>
float Reduce(int64_t count, float initial, Value value, Combine combine) {
  float running[kRunning];
  for (float& r : running) r = initial;
  int64_t i = 0;
  for (; i + kRunning <= count; i += kRunning) {
    for (int64_t l = 0; l < kRunning; ++l) running[l] = combine(running[l], value(i + l));
  }
  for (int64_t l = 0; i + l < count; ++l) running[l] = combine(running[l], value(i + l));
  FoldHalves<kRunning / 2>(running, combine);
  return running[0];
}

template <typename Value>
float Sum(int64_t count, Value value) {
  return Reduce(count, 0.0f, value, [](float a, float b) { return a + b; });
}

// Ignores NaNs. -inf of nothing.
inline float Max(const float* values, int64_t count) {
  // g++ 12 vectorises no selection between floats in Reduce.
  using Lanes = float __attribute__((vector_size(kRunning * sizeof(float))));
  Lanes lanes = Lanes{} - std::numeric_limits<float>::infinity();
  int64_t i = 0;
  for (; i + kRunning <= count; i += kRunning) {
    Lanes next;
    std::memcpy(&next, values + i, sizeof(next));
    lanes = next > lanes ? next : lanes;
  }
  float largest[kRunning];
  std::memcpy(largest, &lanes, sizeof(largest));
  const auto larger = [](float a, float b) { return b > a ? b : a; };
  for (int64_t l = 0; i + l < count; ++l) largest[l] = larger(largest[l], values[i + l]);
  FoldHalves<kRunning / 2>(largest, larger);
  return largest[0];
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_VECTOR_MATH_H_
