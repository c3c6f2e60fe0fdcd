#ifndef TESSERA_KERNELS_CPU_BLOCKS_H_
#define TESSERA_KERNELS_CPU_BLOCKS_H_

#include <algorithm>
#include <cstdint>

#include "core/device.h"
#include "kernels/cpu/simd.h"

namespace tessera::kernels {

// Calls body(first, count) for blocks of at most `kBlock` that cover [0, elements),
// as vectors as wide as the processor has; tiles of several blocks go to the threads.
template <int64_t kBlock, typename Body>
void ForBlocks(Lane& lane, int64_t elements, const Body& body) {
  constexpr int64_t kTile = 16384;
  static_assert(kTile % kBlock == 0);
  lane.pool().For((elements + kTile - 1) / kTile, [&](int64_t tile) {
    const int64_t end = std::min(elements, (tile + 1) * kTile);
    Vectorized([&] {
      for (int64_t first = tile * kTile; first < end; first += kBlock) {
        body(first, std::min(kBlock, end - first));
      }
    });
  });
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_BLOCKS_H_
