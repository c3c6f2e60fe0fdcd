#ifndef TESSERA_CORE_DTYPE_H_
#define TESSERA_CORE_DTYPE_H_

#include <bit>
#include <cstdint>

namespace tessera {

// A brain float: the upper half of an IEEE single. Arithmetic is done in float.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  // Rounds to nearest, ties to even; a NaN stays a (quiet) NaN.
  explicit BFloat16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<uint16_t>(is_nan ? (word >> 16) | 0x40u : rounded);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat64, kInt32, kInt64 };

constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 2;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
  }
  return 0;
}

constexpr const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat64:
      return "fp64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
  }
  return "?";
}

template <typename T>
constexpr DType DTypeOf();
template <>
constexpr DType DTypeOf<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType DTypeOf<BFloat16>() {
  return DType::kBFloat16;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kInt64;
}

}  // namespace tessera

#endif  // TESSERA_CORE_DTYPE_H_
