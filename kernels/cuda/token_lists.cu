#include "core/cuda_lane.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/clear.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/token_lists.h"
#include "kernels/cuda/workspace.h"

// A counting sort. Counts and places come from atomics on integers: places inside a
// token's list are then arbitrary, and a second pass puts the list in order by
// counting, for each position, the smaller ones in its list. That takes the square of
// a list's length, which for text is far less than sorting.
namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kScanThreads = 1024;

__device__ int64_t GlobalThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ int32_t TokenAt(const int32_t* tokens, int64_t position, int64_t vocabulary) {
  const int32_t token = tokens[position];
  return token >= 0 && token < vocabulary ? token : 0;
}

// counts[v] is at starts[v + 1].
__global__ void __launch_bounds__(kThreads)
    CountKernel(const int32_t* tokens, int64_t count, int64_t vocabulary, int32_t* starts,
                CudaFault* fault) {
  const int64_t i = GlobalThread();
  if (i >= count) return;
  atomicAdd(&starts[CheckedIndex(fault, CudaFault::kTokenOutOfRange, tokens[i], i, vocabulary) + 1],
            1);
}

__device__ int32_t InclusiveWarpScan(int32_t value) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const int32_t lower = __shfl_up_sync(kWholeWarp, value, distance);
    if (LaneOfThread() >= distance) value += lower;
  }
  return value;
}

// Leaves, at starts[v + 1], the sum of the counts before v: one block.
__global__ void __launch_bounds__(kScanThreads) ScanKernel(int64_t vocabulary, int32_t* starts) {
  TESSERA_SHARED(int32_t, sums, [kWarp]);
  const int64_t each = (vocabulary + kScanThreads - 1) / kScanThreads;
  const int64_t first = min(vocabulary, threadIdx.x * each);
  const int64_t end = min(vocabulary, first + each);
  int32_t sum = 0;
  for (int64_t v = first; v < end; ++v) sum += starts[v + 1];
  const int32_t inclusive = InclusiveWarpScan(sum);
  if (LaneOfThread() == kWarp - 1) sums[WarpOfThread()] = inclusive;
  __syncthreads();
  int32_t before = inclusive - sum;
  for (int warp = 0; warp < WarpOfThread(); ++warp) before += sums[warp];
  for (int64_t v = first; v < end; ++v) {
    const int32_t count = starts[v + 1];
    starts[v + 1] = before;
    before += count;
  }
}

// Moves starts[v + 1] from the start of v's list to its end, which is where the next
// one starts.
__global__ void __launch_bounds__(kThreads)
    PlaceKernel(const int32_t* tokens, int64_t count, int64_t vocabulary, int32_t* starts,
                int32_t* places) {
  const int64_t i = GlobalThread();
  if (i >= count) return;
  places[atomicAdd(&starts[TokenAt(tokens, i, vocabulary) + 1], 1)] = static_cast<int32_t>(i);
}

__global__ void __launch_bounds__(kThreads)
    OrderKernel(const int32_t* tokens, int64_t count, int64_t vocabulary, const int32_t* starts,
                const int32_t* places, int32_t* order) {
  const int64_t i = GlobalThread();
  if (i >= count) return;
  const int32_t token = TokenAt(tokens, i, vocabulary);
  const int32_t end = starts[token + 1];
  int32_t rank = starts[token];
  for (int32_t other = starts[token]; other < end; ++other) rank += places[other] < i ? 1 : 0;
  order[rank] = static_cast<int32_t>(i);
}

}  // namespace

absl::Status ListTokens(Lane& lane, const Tensor& tokens, int64_t vocabulary, int32_t* starts,
                        int32_t* order, int32_t* scratch) {
  const int64_t count = tokens.elements();
  const auto* values = tokens.as<int32_t>();
  const int64_t blocks = CeilDivide(count, kThreads);
  TESSERA_RETURN_IF_ERROR(Clear(lane, starts, (vocabulary + 1) * SizeOf(DType::kInt32)));
  TESSERA_RETURN_IF_ERROR(TESSERA_LAUNCH(lane, CountKernel, blocks, kThreads, 0, values, count,
                                         vocabulary, starts, CudaLaneOf(lane).fault()));
  TESSERA_RETURN_IF_ERROR(TESSERA_LAUNCH(lane, ScanKernel, 1, kScanThreads, 0, vocabulary, starts));
  TESSERA_RETURN_IF_ERROR(TESSERA_LAUNCH(lane, PlaceKernel, blocks, kThreads, 0, values, count,
                                         vocabulary, starts, scratch));
  return TESSERA_LAUNCH(lane, OrderKernel, blocks, kThreads, 0, values, count, vocabulary, starts,
                        scratch, order);
}

}  // namespace tessera::kernels::cuda
