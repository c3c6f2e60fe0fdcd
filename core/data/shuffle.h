#ifndef TESSERA_CORE_DATA_SHUFFLE_H_
#define TESSERA_CORE_DATA_SHUFFLE_H_

#include <cstdint>

namespace tessera {

// The place of `position` in a random order of 0 .. count - 1 that (seed, epoch)
// names: for a fixed seed and epoch, a bijection of [0, count). Keeps no table,
// takes constant expected time, and is the same on every rank.
// 0 <= position < count.
int64_t Shuffled(uint64_t seed, int64_t epoch, int64_t position, int64_t count);

}  // namespace tessera

#endif  // TESSERA_CORE_DATA_SHUFFLE_H_
