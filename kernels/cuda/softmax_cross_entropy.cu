#include <cmath>

#include "core/cuda_lane.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/softmax_cross_entropy.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kElements = kSlotElements;

// The largest of some logits, and the sum of their exponentials relative to it: a
// softmax's denominator, found while reading the logits once (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018).
struct Denominator {
  float largest = -INFINITY;
  float sum = 0;

  // Also where both are -inf, as at the start.
  __device__ static float Factor(float from, float to) {
    return from == to ? 1.0f : expf(from - to);
  }
  __device__ void Merge(const Denominator& other) {
    const float larger = fmaxf(largest, other.largest);
    sum = sum * Factor(largest, larger) + other.sum * Factor(other.largest, larger);
    largest = larger;
  }
};

__device__ Denominator WarpMerge(Denominator value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const Denominator other = {__shfl_xor_sync(kWholeWarp, value.largest, distance),
                               __shfl_xor_sync(kWholeWarp, value.sum, distance)};
    value.Merge(other);
  }
  return value;
}

// A block for every row, which it reads twice, the second time if there is a gradient.
template <typename Slots, typename Gradient>
__global__ void __launch_bounds__(kThreads)
    SoftmaxKernel(const float* logits, const int32_t* targets, int64_t first_row, Slots slots,
                  float scale, double* row_losses, Gradient* d_logits, CudaFault* fault) {
  TESSERA_SHARED(float, largests, [kThreads / kWarp]);
  TESSERA_SHARED(float, sums, [kThreads / kWarp]);
  const auto row = static_cast<int64_t>(blockIdx.x);
  const float* own = logits + row * slots.width;
  Denominator total;
  for (auto slot = static_cast<int>(threadIdx.x); slot < slots.count(); slot += kThreads) {
    float values[kElements];
    LoadSlot(own, slots, slot, values);
    Denominator here = {total.largest, 0};
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (slots.Has(slot, i)) here.largest = fmaxf(here.largest, values[i]);
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (slots.Has(slot, i)) here.sum += Denominator::Factor(values[i], here.largest);
    }
    total.Merge(here);
  }
  total = WarpMerge(total);
  if (LaneOfThread() == 0) {
    largests[WarpOfThread()] = total.largest;
    sums[WarpOfThread()] = total.sum;
  }
  __syncthreads();
  total = {};
  if (LaneOfThread() < kThreads / kWarp) total = {largests[LaneOfThread()], sums[LaneOfThread()]};
  total = WarpMerge(total);

  const int32_t target =
      CheckedIndex(threadIdx.x == 0 ? fault : nullptr, CudaFault::kTargetOutOfRange, targets[row],
                   first_row + row, slots.width);
  if (threadIdx.x == 0) {
    row_losses[row] = log(static_cast<double>(total.sum)) + static_cast<double>(total.largest) -
                      static_cast<double>(own[target]);
  }
  if (d_logits == nullptr) return;
  const float factor = scale / total.sum;
  for (auto slot = static_cast<int>(threadIdx.x); slot < slots.count(); slot += kThreads) {
    float values[kElements];
    LoadSlot(own, slots, slot, values);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float exponential = expf(values[i] - total.largest);
      values[i] = exponential * factor;
      if (slots.Element(slot, i) == target) values[i] = (exponential / total.sum - 1.0f) * scale;
    }
    StoreSlot(values, slots, slot, d_logits + row * slots.width);
  }
}

constexpr int kLossThreads = 1024;

__global__ void __launch_bounds__(kLossThreads)
    SumLossesKernel(const double* losses, int64_t count, double* total) {
  TESSERA_SHARED(double, shared, [kLossThreads]);
  double sum = 0;
  for (int64_t first = 0; first < count; first += kLossThreads) {
    const int64_t here = min(count - first, int64_t{kLossThreads});
    if (threadIdx.x < here) shared[threadIdx.x] = losses[first + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < here; ++i) sum += shared[i];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace

absl::Status SoftmaxCrossEntropy(Lane& lane, const Tensor& logits, const Tensor& targets,
                                 int64_t first_row, float gradient_scale, double* row_losses,
                                 const Tensor* d_logits) {
  const int64_t rows = targets.elements();
  const int64_t vocabulary = logits.elements() / rows;
  const Tensor gradient = d_logits == nullptr ? Tensor{} : *d_logits;
  return WithFloatType(gradient.dtype, [&](auto type) {
    using Gradient = decltype(type);
    return WithRowSlots(
        vocabulary,
        [&](auto slots) {
          return TESSERA_LAUNCH(lane, (SoftmaxKernel<decltype(slots), Gradient>), rows, kThreads, 0,
                                Elements<float>(logits), targets.as<int32_t>(), first_row, slots,
                                gradient_scale, row_losses, Elements<Gradient>(gradient),
                                CudaLaneOf(lane).fault());
        },
        logits.data, gradient.data);
  });
}

absl::Status SumLosses(Lane& lane, const double* losses, int64_t count, double* total) {
  return TESSERA_LAUNCH(lane, SumLossesKernel, 1, kLossThreads, 0, losses, count, total);
}

}  // namespace tessera::kernels::cuda
