#include "core/exact_sum.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/clear.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"
#include "kernels/square_norm.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 4;  // of a thread at once, and so its share of a chunk's running sums
constexpr int kChunkThreads = 4;
constexpr int kSums = kElements * kChunkThreads;
constexpr int kBlockChunks = kThreads / kChunkThreads;
static_assert(kSums == kSquareNormSums);

// The sum of a chunk's squares, in the order that kernels/square_norm.h says; for the
// first of the chunk's threads.
template <typename T>
__device__ double ChunkSquares(const T* x, int64_t elements, bool vector, int64_t first) {
  const auto thread = static_cast<int>(threadIdx.x) % kChunkThreads;
  double sums[kElements] = {};
#pragma unroll 4
  for (int64_t i = 0; i < kSquareNormChunk; i += kSums) {
    float values[kElements];
    LoadFloats(x, first + i + thread * kElements, elements, vector, values);
#pragma unroll
    for (int j = 0; j < kElements; ++j) {
      const double value = values[j];
      sums[j] += value * value;  // exact, then rounded once
    }
  }
#pragma unroll
  for (int half = kChunkThreads / 2; half > 0; half /= 2) {
#pragma unroll
    for (double& sum : sums) sum += __shfl_down_sync(kWholeWarp, sum, half, kChunkThreads);
  }
#pragma unroll
  for (int half = kElements / 2; half > 0; half /= 2) {
#pragma unroll
    for (int j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

__device__ void AtomicAdd(int64_t* to, int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

// Four threads for every chunk; a block collects its chunks' sums before it adds them
// to the accumulator, where all blocks meet. Both are sums of integers.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SquareNormKernel(const T* x, int64_t elements, bool vector, int64_t* accumulator) {
  TESSERA_SHARED(int64_t, words, [ExactSum::kWords]);
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread < ExactSum::kWords) words[thread] = 0;
  __syncthreads();
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) * kBlockChunks + thread / kChunkThreads;
  // Of zeros, where the chunk is beyond the end.
  const double squares = ChunkSquares(x, elements, vector, chunk * kSquareNormChunk);
  if (thread % kChunkThreads == 0) {
    const ExactSum::Terms terms = ExactSum::TermsOf(squares);
    for (int i = 0; i < ExactSum::Terms::kCount; ++i) {
      if (terms.values[i] != 0) AtomicAdd(&words[terms.first + i], terms.values[i]);
    }
  }
  __syncthreads();
  if (thread < ExactSum::kWords && words[thread] != 0) {
    AtomicAdd(&accumulator[thread], words[thread]);
  }
}

}  // namespace

absl::Status SquareNorm(Lane& lane, const Tensor& x, const Tensor& accumulator, bool add) {
  if (!add) TESSERA_RETURN_IF_ERROR(Clear(lane, accumulator.data, accumulator.bytes()));
  const int64_t elements = x.elements();
  const int64_t blocks = CeilDivide(elements, kBlockChunks * kSquareNormChunk);
  return WithFloatType(x.dtype, [&](auto type) {
    using T = decltype(type);
    return TESSERA_LAUNCH(lane, (SquareNormKernel<T>), blocks, kThreads, 0, Elements<T>(x),
                          elements, IsAligned(x.data), accumulator.as<int64_t>());
  });
}

}  // namespace tessera::kernels::cuda
