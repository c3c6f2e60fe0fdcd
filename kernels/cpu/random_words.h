#ifndef TESSERA_KERNELS_CPU_RANDOM_WORDS_H_
#define TESSERA_KERNELS_CPU_RANDOM_WORDS_H_

#include <cstdint>

#include "core/philox.h"

namespace tessera::kernels {

// Words that RandomWords makes side by side.
inline constexpr int64_t kRandomWordsWidth = 32;

// words[i] = key.Word(first + i) for i in [0, count), several times as fast as one
// by one. `first` is a multiple of 4, `count` of kRandomWordsWidth.
void RandomWords(const RandomKey& key, int64_t first, int64_t count, uint32_t* words);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_RANDOM_WORDS_H_
