#ifndef TESSERA_KERNELS_CPU_ROW_CHUNKS_H_
#define TESSERA_KERNELS_CPU_ROW_CHUNKS_H_

#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/device.h"
#include "core/tensor.h"
#include "kernels/cpu/convert.h"

// Sums over the rows of a matrix: rows are added in order inside chunks of fixed
// size, then the chunks in order, so that threads can share the work and the
// result knows nothing of them.
namespace tessera::kernels {

inline constexpr int64_t kRowChunk = 64;

inline int64_t RowChunks(int64_t rows) { return (rows + kRowChunk - 1) / kRowChunk; }

// out[i] = the sum over chunks c of partial[c * stride + i], rounded once.
inline void SumRowChunks(Lane& lane, const float* partial, int64_t chunks, int64_t stride,
                         const Tensor& out) {
  constexpr int64_t kColumns = 256;
  const int64_t width = out.elements();
  lane.pool().For((width + kColumns - 1) / kColumns, [&](int64_t tile) {
    const int64_t first = tile * kColumns;
    const int64_t count = std::min(kColumns, width - first);
    float sum[kColumns] = {};
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const float* values = partial + chunk * stride + first;
      for (int64_t i = 0; i < count; ++i) sum[i] += values[i];
    }
    StoreFloats(sum, first, count, out);
  });
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_ROW_CHUNKS_H_
