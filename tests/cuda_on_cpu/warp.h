#ifndef TESSERA_TESTS_CUDA_ON_CPU_WARP_H_
#define TESSERA_TESTS_CUDA_ON_CPU_WARP_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tests/cuda_on_cpu/block_scheduler.h"

namespace tessera::cuda_on_cpu {

// Done once all lanes of `mask` are there: in[l] and out[l] are what lane l brought.
using WarpOperation = void (*)(uint32_t mask, void* const* in, void* const* out);

// Waits for the lanes of `mask` that are live; the last one runs `operation`. Reports
// a lane that is not in its own mask, and lanes that meet with different masks or
// operations. Orders no memory.
void MeetInWarp(uint32_t mask, WarpOperation operation, const void* in, void* out);

// __syncwarp: a meeting that orders memory.
void SyncWarp(uint32_t mask);

uint32_t Ballot(uint32_t mask, bool predicate);

// What a lane that takes no part holds is not defined: all bits set.
template <typename T>
struct ShuffleInput {
  T value;
  int source;
};

template <typename T>
[[gnu::no_sanitize_thread]] void ShuffleLanes(uint32_t mask, void* const* in, void* const* out) {
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (((mask >> lane) & 1) == 0) continue;
    const int source = static_cast<const ShuffleInput<T>*>(in[lane])->source;
    T* result = static_cast<T*>(out[lane]);
    if (((mask >> source) & 1) != 0) {
      *result = static_cast<const ShuffleInput<T>*>(in[source])->value;
    } else {
      // No memset: ThreadSanitizer would take it for an access of the thread that runs.
      auto* bytes = reinterpret_cast<volatile unsigned char*>(result);
      for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = 0xFF;
    }
  }
}

// The value that lane `source`, which meets with the same mask, brings.
template <typename T>
T Shuffle(uint32_t mask, T value, int source) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  const ShuffleInput<T> in{value, source};
  T out;
  MeetInWarp(mask, &ShuffleLanes<T>, &in, &out);
  return out;
}

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_WARP_H_
