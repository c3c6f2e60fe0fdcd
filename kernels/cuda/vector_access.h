#ifndef TESSERA_KERNELS_CUDA_VECTOR_ACCESS_H_
#define TESSERA_KERNELS_CUDA_VECTOR_ACCESS_H_

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include "core/status.h"
#include "core/tensor.h"

// How kernels read and write fp32 and bf16: as floats, several elements at once, in
// accesses of up to 16 bytes where the memory allows it.
namespace tessera::kernels::cuda {

using bfloat16 = __nv_bfloat16;

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(bfloat16 value) { return __bfloat162float(value); }

// Rounds to nearest, ties to even.
template <typename T>
__device__ T FromFloat(float value) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return value;
  } else {
    return __float2bfloat16_rn(value);
  }
}

// `kBytes`, a multiple of 8, at once.
template <int kBytes>
struct alignas(kBytes % 16 == 0 ? 16 : 8) Words {
  using Word = std::conditional_t<kBytes % 16 == 0, uint4, uint2>;
  Word words[kBytes / sizeof(Word)];
};

// kCount elements side by side, `from` aligned to their bytes or to 16.
template <int kCount, typename T>
__device__ void LoadVector(const T* from, float (&to)[kCount]) {
  using Bytes = Words<kCount * sizeof(T)>;
  Bytes bytes;
#pragma unroll
  for (size_t i = 0; i < sizeof(bytes.words) / sizeof(bytes.words[0]); ++i) {
    bytes.words[i] = reinterpret_cast<const typename Bytes::Word*>(from)[i];
  }
  T values[kCount];
  std::memcpy(values, bytes.words, sizeof(values));
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = ToFloat(values[i]);
}

template <int kCount, typename T>
__device__ void StoreVector(const float (&from)[kCount], T* to) {
  using Bytes = Words<kCount * sizeof(T)>;
  T values[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = FromFloat<T>(from[i]);
  Bytes bytes;
  std::memcpy(bytes.words, values, sizeof(values));
#pragma unroll
  for (size_t i = 0; i < sizeof(bytes.words) / sizeof(bytes.words[0]); ++i) {
    reinterpret_cast<typename Bytes::Word*>(to)[i] = bytes.words[i];
  }
}

// Elements first .. first + kCount - 1 of an array of `count`; those beyond its end
// are 0. `vector` says that the array is aligned to 16 bytes; `first` is a multiple
// of kCount.
template <int kCount, typename T>
__device__ void LoadFloats(const T* from, int64_t first, int64_t count, bool vector,
                           float (&to)[kCount]) {
  if (vector && first + kCount <= count) {
    LoadVector(from + first, to);
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = first + i < count ? ToFloat(from[first + i]) : 0.0f;
}

// The reverse: rounds to T; writes nothing beyond the array's end.
template <int kCount, typename T>
__device__ void StoreFloats(const float (&from)[kCount], int64_t first, int64_t count, bool vector,
                            T* to) {
  if (vector && first + kCount <= count) {
    StoreVector(from, to + first);
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (first + i < count) to[first + i] = FromFloat<T>(from[i]);
  }
}

// How a block's threads share a row of `width` elements: in slots of 8. Where every
// row is aligned (kVector) a slot is 8 side by side; elsewhere they are as far apart
// as there are slots, so that a warp's accesses are side by side either way.
inline constexpr int kSlotElements = 8;

template <bool kVector>
struct RowSlots {
  int width = 0;

  __host__ __device__ int count() const { return (width + kSlotElements - 1) / kSlotElements; }
  // The i-th element of a slot, which there may not be.
  __device__ int Element(int slot, int i) const {
    return kVector ? slot * kSlotElements + i : i * count() + slot;
  }
  __device__ bool Has(int slot, int i) const {
    return slot < count() && (kVector || Element(slot, i) < width);
  }
};

// A slot's elements of a row; 0 where there is none.
template <bool kVector, typename T>
__device__ void LoadSlot(const T* row, const RowSlots<kVector>& slots, int slot,
                         float (&to)[kSlotElements]) {
  if constexpr (kVector) {
    if (slot < slots.count()) {
      LoadVector(row + slot * kSlotElements, to);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < kSlotElements; ++i) {
    to[i] = !kVector && slots.Has(slot, i) ? ToFloat(row[slots.Element(slot, i)]) : 0.0f;
  }
}

template <bool kVector, typename T>
__device__ void StoreSlot(const float (&from)[kSlotElements], const RowSlots<kVector>& slots,
                          int slot, T* row) {
  if constexpr (kVector) {
    if (slot < slots.count()) StoreVector(from, row + slot * kSlotElements);
  } else {
#pragma unroll
    for (int i = 0; i < kSlotElements; ++i) {
      if (slots.Has(slot, i)) row[slots.Element(slot, i)] = FromFloat<T>(from[i]);
    }
  }
}

inline bool IsAligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Calls body(slots) with the slots for rows of `width` that start at each of these
// addresses, and returns what it returns.
template <typename Body, typename... Pointers>
auto WithRowSlots(int64_t width, const Body& body, Pointers... rows) {
  TESSERA_CHECK(width > 0 && width < int64_t{1} << 30, "no width of a row");
  const bool vector = width % kSlotElements == 0 && (IsAligned(rows) && ...);
  return vector ? body(RowSlots<true>{static_cast<int>(width)})
                : body(RowSlots<false>{static_cast<int>(width)});
}

// Calls body(T{}) with the type that kernels have for a dtype, and returns what it
// returns.
template <typename Body>
auto WithFloatType(DType dtype, const Body& body) {
  TESSERA_CHECK(dtype == DType::kFloat32 || dtype == DType::kBFloat16, "neither fp32 nor bf16");
  return dtype == DType::kFloat32 ? body(float{}) : body(bfloat16{});
}

// A tensor's elements as that type.
template <typename T>
T* Elements(const Tensor& tensor) {
  TESSERA_CHECK(tensor.dtype == (sizeof(T) == 2 ? DType::kBFloat16 : DType::kFloat32),
                "wrong dtype");
  return static_cast<T*>(tensor.data);
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_VECTOR_ACCESS_H_
