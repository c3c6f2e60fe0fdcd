#include "kernels/cuda/launch.h"
#include "tests/cuda_on_cpu/testing/sample_kernels.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr int kTile = 32;
constexpr int kWarps = 4;

__global__ void ScaleKernel(float* out, const float* x, float by, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) out[i] = by * x[i];
}

template <int kRows>
__global__ void TransposeKernel(float* out, const float* x, int64_t rows, int64_t columns) {
  TESSERA_SHARED(float, tile, [kTile][kTile + 1]);
  int64_t column = int64_t{blockIdx.x} * kTile + threadIdx.x;
  for (int i = threadIdx.y; i < kTile; i += kRows) {
    const int64_t row = int64_t{blockIdx.y} * kTile + i;
    if (row < rows && column < columns) tile[i][threadIdx.x] = x[row * columns + column];
  }
  __syncthreads();
  const int64_t row = int64_t{blockIdx.y} * kTile + threadIdx.x;
  for (int i = threadIdx.y; i < kTile; i += kRows) {
    column = int64_t{blockIdx.x} * kTile + i;
    if (row < rows && column < columns) out[column * rows + row] = tile[threadIdx.x][i];
  }
}

__device__ float SumWarp(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(0xFFFFFFFF, value, lanes);
  }
  return value;
}

__global__ void __launch_bounds__(kWarps * 32)
    SumRowsKernel(float* out, const float* x, int64_t columns) {
  TESSERA_DYNAMIC_SHARED(float, sums);
  float sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += blockDim.x) {
    sum += x[blockIdx.x * columns + i];
  }
  sum = SumWarp(sum);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  sum = SumWarp(threadIdx.x < kWarps ? sums[threadIdx.x] : 0.0f);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

}  // namespace

absl::Status Scale(Lane& lane, float* out, const float* x, float by, int64_t count) {
  return TESSERA_LAUNCH(lane, ScaleKernel, (count + 127) / 128, 128, 0, out, x, by, count);
}

absl::Status TransposeTiles(Lane& lane, float* out, const float* x, int64_t rows, int64_t columns) {
  const kernels::cuda::Extents grid((columns + kTile - 1) / kTile, (rows + kTile - 1) / kTile);
  return TESSERA_LAUNCH(lane, (TransposeKernel<8>), grid, dim3(kTile, 8), 0, out, x, rows, columns);
}

absl::Status SumRows(Lane& lane, float* out, const float* x, int64_t rows, int64_t columns) {
  return TESSERA_LAUNCH(lane, SumRowsKernel, rows, kWarps * 32, kWarps * sizeof(float), out, x,
                        columns);
}

}  // namespace tessera::cuda_on_cpu
