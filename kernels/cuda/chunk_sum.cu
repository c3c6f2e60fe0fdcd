#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/chunk_sum.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kColumns = kWarp;  // of a block: one for every thread of a warp
constexpr int kRuns = 8;         // a warp each

template <typename T>
__global__ void __launch_bounds__(kColumns* kRuns)
    SumChunksKernel(const float* partial, int64_t chunks, int64_t stride, int64_t width, T* out) {
  TESSERA_SHARED(float, sums, [kRuns][kColumns]);
  const int column = static_cast<int>(threadIdx.x) % kColumns;
  const int run = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kColumns + column;
  const int64_t length = (chunks + kRuns - 1) / kRuns;
  const int64_t end = min(chunks, (run + 1) * length);
  float sum = 0;
  if (element < width) {
#pragma unroll 8
    for (int64_t chunk = run * length; chunk < end; ++chunk) {
      sum += partial[chunk * stride + element];
    }
  }
  sums[run][column] = sum;
  __syncthreads();
  if (run != 0 || element >= width) return;
  for (int other = 1; other < kRuns; ++other) sum += sums[other][column];
  out[element] = FromFloat<T>(sum);
}

}  // namespace

absl::Status SumChunks(Lane& lane, const float* partial, int64_t chunks, int64_t stride,
                       const Tensor& out) {
  const int64_t width = out.elements();
  return WithFloatType(out.dtype, [&](auto type) {
    using T = decltype(type);
    return TESSERA_LAUNCH(lane, (SumChunksKernel<T>), CeilDivide(width, kColumns), kColumns * kRuns,
                          0, partial, chunks, stride, width, Elements<T>(out));
  });
}

}  // namespace tessera::kernels::cuda
