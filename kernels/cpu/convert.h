#ifndef TESSERA_KERNELS_CPU_CONVERT_H_
#define TESSERA_KERNELS_CPU_CONVERT_H_

#include <cstdint>

#include "core/tensor.h"

namespace tessera::kernels {

// Elements [first, first + count) of a fp32 or bf16 tensor, as floats.
inline void LoadFloats(const Tensor& from, int64_t first, int64_t count, float* to) {
  if (from.dtype == DType::kFloat32) {
    const float* source = from.as<float>() + first;
    for (int64_t i = 0; i < count; ++i) to[i] = source[i];
  } else {
    const BFloat16* source = from.as<BFloat16>() + first;
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(source[i]);
  }
}

// The reverse of LoadFloats: rounds to the tensor's dtype.
inline void StoreFloats(const float* from, int64_t first, int64_t count, const Tensor& to) {
  if (to.dtype == DType::kFloat32) {
    float* target = to.as<float>() + first;
    for (int64_t i = 0; i < count; ++i) target[i] = from[i];
  } else {
    BFloat16* target = to.as<BFloat16>() + first;
    for (int64_t i = 0; i < count; ++i) target[i] = BFloat16(from[i]);
  }
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_CONVERT_H_
