#ifndef TESSERA_KERNELS_CUDA_BLOCK_REDUCE_H_
#define TESSERA_KERNELS_CUDA_BLOCK_REDUCE_H_

#include <cuda_runtime.h>

// Reductions over the threads of a warp or a block, in an order that depends on
// the number of threads alone; every thread gets the same bits.
namespace tessera::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;
inline constexpr int kMaximumWarps = 32;  // of a block

__device__ inline int LaneOfThread() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int WarpOfThread() { return static_cast<int>(threadIdx.x) / kWarp; }

template <typename T>
__device__ T WarpSum(T value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

__device__ inline float WarpMax(float value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, distance));
  }
  return value;
}

// Sums of kCount values over a block of whole warps, one-dimensional. `shared` has a
// place for every warp; between two calls with the same `shared` must be a barrier
// or a call with another.
template <int kCount>
__device__ void BlockSum(float (&values)[kCount], float (&shared)[kMaximumWarps][kCount]) {
#pragma unroll
  for (float& value : values) value = WarpSum(value);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return;
  if (LaneOfThread() == 0) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) shared[WarpOfThread()][i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    values[i] = WarpSum(LaneOfThread() < warps ? shared[LaneOfThread()][i] : 0.0f);
  }
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_BLOCK_REDUCE_H_
