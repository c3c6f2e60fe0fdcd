#include "kernels/column_sum.h"

#include <algorithm>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/row_chunks.h"
#include "kernels/cpu/simd.h"

namespace tessera::kernels::cpu {

int64_t ColumnSumWorkspace(int64_t rows, int64_t columns) {
  return RowChunks(rows) * columns * SizeOf(DType::kFloat32);
}

absl::Status ColumnSum(Lane& lane, const Tensor& x, const Tensor& out, std::byte* workspace) {
  constexpr int64_t kColumns = 512;
  const int64_t width = out.elements();
  if (width == 0) return absl::OkStatus();
  const int64_t rows = x.elements() / width;
  const int64_t chunks = RowChunks(rows);
  const int64_t blocks = (width + kColumns - 1) / kColumns;
  auto* partial = reinterpret_cast<float*>(workspace);
  lane.pool().For(chunks * blocks, [&](int64_t tile) {
    const int64_t chunk = tile / blocks;
    const int64_t first = tile % blocks * kColumns;
    const int64_t count = std::min(kColumns, width - first);
    alignas(64) float sum[kColumns] = {};
    alignas(64) float values[kColumns];
    const int64_t end = std::min(rows, (chunk + 1) * kRowChunk);
    Vectorized([&] {
      for (int64_t row = chunk * kRowChunk; row < end; ++row) {
        LoadFloats(x, row * width + first, count, values);
        for (int64_t i = 0; i < count; ++i) sum[i] += values[i];
      }
    });
    std::copy_n(sum, count, partial + chunk * width + first);
  });
  SumRowChunks(lane, partial, chunks, width, out);
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
