#include "kernels/cpu/transposed_copy.h"

#include <algorithm>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace tessera::kernels {
namespace {

constexpr int64_t kBlock = 32;  // elements of a cache line

void CopyPart(const BFloat16* from, int64_t rows, int64_t columns, int64_t stride, BFloat16* to,
              int64_t to_stride) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * stride + c];
  }
}

#ifdef __SSE2__

// 8 x 8 elements: neighbours interleaved, three times.
void CopyEight(const BFloat16* from, int64_t stride, BFloat16* to, int64_t to_stride) {
  __m128i rows[8];
  __m128i other[8];
  for (int i = 0; i < 8; ++i) {
    rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * stride));
  }
  for (int i = 0; i < 4; ++i) {
    other[2 * i] = _mm_unpacklo_epi16(rows[i], rows[i + 4]);
    other[2 * i + 1] = _mm_unpackhi_epi16(rows[i], rows[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    rows[2 * i] = _mm_unpacklo_epi16(other[i], other[i + 4]);
    rows[2 * i + 1] = _mm_unpackhi_epi16(other[i], other[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    auto* target = reinterpret_cast<__m128i*>(to + 2 * i * to_stride);
    auto* next = reinterpret_cast<__m128i*>(to + (2 * i + 1) * to_stride);
    _mm_storeu_si128(target, _mm_unpacklo_epi16(rows[i], rows[i + 4]));
    _mm_storeu_si128(next, _mm_unpackhi_epi16(rows[i], rows[i + 4]));
  }
}

void CopyBlock(const BFloat16* from, int64_t stride, BFloat16* to, int64_t to_stride) {
  for (int64_t c = 0; c < kBlock; c += 8) {
    for (int64_t r = 0; r < kBlock; r += 8) {
      CopyEight(from + r * stride + c, stride, to + c * to_stride + r, to_stride);
    }
  }
}

#else

void CopyBlock(const BFloat16* from, int64_t stride, BFloat16* to, int64_t to_stride) {
  CopyPart(from, kBlock, kBlock, stride, to, to_stride);
}

#endif

}  // namespace

void TransposedCopy(const BFloat16* from, int64_t rows, int64_t columns, int64_t stride,
                    BFloat16* to) {
  for (int64_t r = 0; r < rows; r += kBlock) {
    for (int64_t c = 0; c < columns; c += kBlock) {
      const int64_t height = std::min(kBlock, rows - r);
      const int64_t width = std::min(kBlock, columns - c);
      if (height == kBlock && width == kBlock) {
        CopyBlock(from + r * stride + c, stride, to + c * rows + r, rows);
      } else {
        CopyPart(from + r * stride + c, height, width, stride, to + c * rows + r, rows);
      }
    }
  }
}

}  // namespace tessera::kernels
