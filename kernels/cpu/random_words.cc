#include "kernels/cpu/random_words.h"

#include <algorithm>
#include <array>

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace tessera::kernels {
namespace {

#ifdef __AVX2__

// Philox of four counters: word w of counter j is the lower half of lane j of
// words[w]. Upper halves are left over from products, and never read.
struct FourCounters {
  __m256i words[4];

  void Round(__m256i k0, __m256i k1) {
    const __m256i p0 = _mm256_mul_epu32(words[0], _mm256_set1_epi64x(kPhiloxMultiplier0));
    const __m256i p1 = _mm256_mul_epu32(words[2], _mm256_set1_epi64x(kPhiloxMultiplier1));
    words[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), words[1]), k0);
    words[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), words[3]), k1);
    words[1] = p1;
    words[3] = p0;
  }

  // The 16 words, counter by counter.
  void Store(uint32_t* out) const {
    const __m256i w01 = _mm256_blend_epi32(words[0], _mm256_slli_epi64(words[1], 32), 0xaa);
    const __m256i w23 = _mm256_blend_epi32(words[2], _mm256_slli_epi64(words[3], 32), 0xaa);
    const __m256i even = _mm256_unpacklo_epi64(w01, w23);
    const __m256i odd = _mm256_unpackhi_epi64(w01, w23);
    auto* target = reinterpret_cast<__m256i*>(out);
    _mm256_storeu_si256(target, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(target + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
};

// Two sets, so that the latency of one's products hides behind the other's.
void EightBlocks(const RandomKey& key, uint32_t block, uint32_t* out) {
  const std::array<uint32_t, 4> counter = key.Counter(block);
  FourCounters a;
  for (int word = 0; word < 4; ++word) a.words[word] = _mm256_set1_epi64x(counter[word]);
  FourCounters b = a;
  a.words[0] = _mm256_add_epi32(a.words[0], _mm256_set_epi64x(3, 2, 1, 0));
  b.words[0] = _mm256_add_epi32(b.words[0], _mm256_set_epi64x(7, 6, 5, 4));
  __m256i k0 = _mm256_set1_epi64x(static_cast<uint32_t>(key.seed));
  __m256i k1 = _mm256_set1_epi64x(static_cast<uint32_t>(key.seed >> 32));
  for (int round = 0; round < 10; ++round) {
    a.Round(k0, k1);
    b.Round(k0, k1);
    k0 = _mm256_add_epi32(k0, _mm256_set1_epi64x(kPhiloxWeyl0));
    k1 = _mm256_add_epi32(k1, _mm256_set1_epi64x(kPhiloxWeyl1));
  }
  a.Store(out);
  b.Store(out + 16);
}

#else

void EightBlocks(const RandomKey& key, uint32_t block, uint32_t* out) {
  for (uint32_t i = 0; i < 8; ++i) {
    const std::array<uint32_t, 4> words = key.Block(block + i);
    std::copy(words.begin(), words.end(), out + 4 * i);
  }
}

#endif

}  // namespace

void RandomWords(const RandomKey& key, int64_t first, int64_t count, uint32_t* words) {
  for (int64_t i = 0; i < count; i += kRandomWordsWidth) {
    EightBlocks(key, static_cast<uint32_t>((first + i) / 4), words + i);
  }
}

}  // namespace tessera::kernels
