#ifndef TESSERA_KERNELS_CPU_WIDEN_H_
#define TESSERA_KERNELS_CPU_WIDEN_H_

#include <cstdint>

#include "core/dtype.h"

namespace tessera::kernels {

// A bf16 matrix, whose rows begin `stride` elements apart, to and from a dense fp32 one.

inline void Widen(const void* from, int64_t rows, int64_t columns, int64_t stride, float* to) {
  const auto* const narrow = static_cast<const BFloat16*>(from);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      to[i * columns + j] = static_cast<float>(narrow[i * stride + j]);
    }
  }
}

inline void Narrow(const float* from, int64_t rows, int64_t columns, int64_t stride, void* to) {
  auto* const narrow = static_cast<BFloat16*>(to);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      narrow[i * stride + j] = BFloat16(from[i * columns + j]);
    }
  }
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_WIDEN_H_
