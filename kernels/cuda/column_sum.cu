#include "kernels/column_sum.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/chunk_sum.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kElements = kSlotElements;

// A block adds the rows of one chunk, in 32 slots of columns: every warp every
// kWarps-th row, and then the warps' sums in order.
template <typename Slots, typename T>
__global__ void __launch_bounds__(kWarps* kWarp)
    ColumnSumKernel(const T* x, int64_t rows, Slots slots, float* partial) {
  TESSERA_SHARED(float, sums, [kWarps][kElements][kWarp]);
  const int slot = static_cast<int>(blockIdx.x) * kWarp + LaneOfThread();
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kColumnSumRows;
  const int64_t end = min(rows, first + kColumnSumRows);
  float sum[kElements] = {};
#pragma unroll 2
  for (int64_t row = first + WarpOfThread(); row < end; row += kWarps) {
    float values[kElements];
    LoadSlot(x + row * slots.width, slots, slot, values);
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum[i] += values[i];
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) sums[WarpOfThread()][i][LaneOfThread()] = sum[i];
  __syncthreads();
  // As many threads as there are columns to finish.
  const int own = WarpOfThread();
  float total = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) total += sums[warp][own][LaneOfThread()];
  if (slots.Has(slot, own)) {
    partial[static_cast<int64_t>(blockIdx.y) * slots.width + slots.Element(slot, own)] = total;
  }
}
static_assert(kWarps == kElements);

}  // namespace

absl::Status ColumnSum(Lane& lane, const Tensor& x, const Tensor& out, std::byte* workspace) {
  const int64_t width = out.elements();
  if (width == 0) return absl::OkStatus();
  const int64_t rows = x.elements() / width;
  const int64_t chunks = CeilDivide(rows, kColumnSumRows);
  auto* partial = reinterpret_cast<float*>(workspace);
  TESSERA_RETURN_IF_ERROR(WithFloatType(x.dtype, [&](auto type) {
    using T = decltype(type);
    return WithRowSlots(
        width,
        [&](auto slots) {
          const Extents grid(CeilDivide(slots.count(), kWarp), chunks);
          return TESSERA_LAUNCH(lane, (ColumnSumKernel<decltype(slots), T>), grid, kWarps * kWarp,
                                0, Elements<T>(x), rows, slots, partial);
        },
        x.data);
  }));
  return SumChunks(lane, partial, chunks, width, out);
}

}  // namespace tessera::kernels::cuda
