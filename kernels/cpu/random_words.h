#ifndef TESSERA_KERNELS_CPU_RANDOM_WORDS_H_
#define TESSERA_KERNELS_CPU_RANDOM_WORDS_H_

#include <array>
#include <cstdint>

#include "core/philox.h"

namespace tessera::kernels {

// Words that RandomWords computes side by side.
inline constexpr int64_t kRandomWordsWidth = 32;

// words[i] = key.Word(first + i) for i in [0, count); `first` is a multiple of 4,
// `count` of kRandomWordsWidth. The arithmetic of Philox, arranged so that a
// compiler uses vectors: halves of products are kept in words of 64 bits.
inline void RandomWords(const RandomKey& key, int64_t first, int64_t count,
                        uint32_t* __restrict words) {
  constexpr int kCounters = kRandomWordsWidth / 4;
  constexpr uint64_t kLow = 0xffffffffu;
  for (int64_t start = 0; start < count; start += kRandomWordsWidth) {
    const std::array<uint32_t, 4> origin = key.Counter(static_cast<uint32_t>((first + start) / 4));
    alignas(64) uint64_t counter[4][kCounters];
    for (int j = 0; j < kCounters; ++j) {
      for (int word = 0; word < 4; ++word) counter[word][j] = origin[word];
      counter[0][j] = (counter[0][j] + j) & kLow;
    }
    uint64_t k0 = key.seed & kLow;
    uint64_t k1 = key.seed >> 32;
    for (int round = 0; round < 10; ++round) {
      for (int j = 0; j < kCounters; ++j) {
        const uint64_t p0 = kPhiloxMultiplier0 * counter[0][j];
        const uint64_t p1 = kPhiloxMultiplier1 * counter[2][j];
        counter[0][j] = (p1 >> 32) ^ counter[1][j] ^ k0;
        counter[1][j] = p1 & kLow;
        counter[2][j] = (p0 >> 32) ^ counter[3][j] ^ k1;
        counter[3][j] = p0 & kLow;
      }
      k0 = (k0 + kPhiloxWeyl0) & kLow;
      k1 = (k1 + kPhiloxWeyl1) & kLow;
    }
    for (int j = 0; j < kCounters; ++j) {
      for (int word = 0; word < 4; ++word) {
        words[start + 4 * j + word] = static_cast<uint32_t>(counter[word][j]);
      }
    }
  }
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_RANDOM_WORDS_H_
