#ifndef TESSERA_KERNELS_STOCHASTIC_ROUNDING_H_
#define TESSERA_KERNELS_STOCHASTIC_ROUNDING_H_

#include <bit>
#include <cstdint>

#include "core/philox.h"

namespace tessera::kernels {

// Which random words round which elements: that of element first + i of `key` the
// i-th element of a tensor. `first` is a multiple of 4.
struct StochasticRounding {
  RandomKey key;
  int64_t first = 0;
};

// One of the two numbers of bf16 next to `value`, the nearer one with the larger
// probability, so that the mean over random words is `value`. Infinities and NaNs stay
// such. The words' upper half decides.
constexpr float RoundStochastically(float value, uint32_t word) {
  const auto bits = std::bit_cast<uint32_t>(value);
  constexpr uint32_t kExponent = 0x7f800000u;
  if ((bits & kExponent) == kExponent) return value;
  return std::bit_cast<float>((bits + (word >> 16)) & 0xffff0000u);
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_STOCHASTIC_ROUNDING_H_
