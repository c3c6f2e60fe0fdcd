#include <algorithm>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/chunk_sum.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/normalization.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kElements = kSlotElements;
constexpr int kBackwardThreads = 256;
constexpr int64_t kMaximumBackwardWidth = 16384;  // for its sums 128 KiB of shared memory

template <typename Slots, typename T>
struct ForwardArguments {
  const T* x;
  const T* residual;  // or null
  T* sum;             // or null
  const T* weight;
  const T* bias;  // or null
  float epsilon;
  T* out;
  float* mean;  // or null: rows are not centred
  float* rstd;
  Slots slots;
  int64_t rows;
};

// Over the threads of one row: a warp or the block.
template <int kThreads>
__device__ float RowSum(float value, float (&shared)[kMaximumWarps][1]) {
  if constexpr (kThreads == kWarp) return WarpSum(value);
  float values[1] = {value};
  BlockSum(values, shared);
  return values[0];
}

template <int kThreads>
constexpr int kRowsOfBlock = kThreads == kWarp ? 4 : 1;

// kThreads hold a row, kSlots slots each, in registers.
template <typename Slots, typename T, int kThreads, int kSlots>
__global__ void __launch_bounds__(kThreads* kRowsOfBlock<kThreads>)
    ForwardKernel(ForwardArguments<Slots, T> a) {
  TESSERA_SHARED(float, shared, [2][kMaximumWarps][1]);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock<kThreads> +
                      static_cast<int>(threadIdx.x) / kThreads;
  if (row >= a.rows) return;
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const Slots slots = a.slots;
  const int64_t start = row * slots.width;

  float values[kSlots][kElements];
#pragma unroll
  for (int s = 0; s < kSlots; ++s) LoadSlot(a.x + start, slots, thread + s * kThreads, values[s]);
  if (a.residual != nullptr) {
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
      float other[kElements];
      LoadSlot(a.residual + start, slots, thread + s * kThreads, other);
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        values[s][i] = ToFloat(FromFloat<T>(values[s][i] + other[i]));
      }
      StoreSlot(values[s], slots, thread + s * kThreads, a.sum + start);
    }
  }

  const auto width = static_cast<float>(slots.width);
  float mean = 0;
  if (a.mean != nullptr) {
    float sum = 0;
#pragma unroll
    for (int s = 0; s < kSlots; ++s) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) sum += values[s][i];
    }
    mean = RowSum<kThreads>(sum, shared[0]) / width;
    if (thread == 0) a.mean[row] = mean;
  }
  float squares = 0;
#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float deviation = values[s][i] - mean;
      if (slots.Has(thread + s * kThreads, i)) squares = fmaf(deviation, deviation, squares);
    }
  }
  const float variance = RowSum<kThreads>(squares, shared[1]) / width;
  const float rstd = 1.0f / sqrtf(variance + a.epsilon);
  if (thread == 0) a.rstd[row] = rstd;

#pragma unroll
  for (int s = 0; s < kSlots; ++s) {
    const int slot = thread + s * kThreads;
    float weight[kElements];
    float bias[kElements] = {};
    LoadSlot(a.weight, slots, slot, weight);
    if (a.bias != nullptr) LoadSlot(a.bias, slots, slot, bias);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      values[s][i] = fmaf((values[s][i] - mean) * rstd, weight[i], bias[i]);
    }
    StoreSlot(values[s], slots, slot, a.out + start);
  }
}

template <typename Slots, typename T, int kThreads, int kSlots>
absl::Status LaunchForward(Lane& lane, const ForwardArguments<Slots, T>& arguments) {
  return TESSERA_LAUNCH(lane, (ForwardKernel<Slots, T, kThreads, kSlots>),
                        CeilDivide(arguments.rows, kRowsOfBlock<kThreads>),
                        kThreads * kRowsOfBlock<kThreads>, 0, arguments);
}

// As few threads as hold the row, but for 32 elements at most each.
template <typename Slots, typename T>
absl::Status ChooseForward(Lane& lane, const ForwardArguments<Slots, T>& arguments) {
  const int slots = arguments.slots.count();
  if constexpr (std::is_same_v<Slots, RowSlots<true>>) {
    if (slots <= 32) return LaunchForward<Slots, T, 32, 1>(lane, arguments);
    if (slots <= 64) return LaunchForward<Slots, T, 32, 2>(lane, arguments);
    if (slots <= 128) return LaunchForward<Slots, T, 32, 4>(lane, arguments);
    if (slots <= 512) return LaunchForward<Slots, T, 256, 2>(lane, arguments);
    if (slots <= 2048) return LaunchForward<Slots, T, 512, 4>(lane, arguments);
  } else {
    if (slots <= 256) return LaunchForward<Slots, T, 256, 1>(lane, arguments);
    if (slots <= 1024) return LaunchForward<Slots, T, 1024, 1>(lane, arguments);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("rows of ", arguments.slots.width, " are too wide to normalise on a GPU"));
}

template <typename Slots, typename T>
struct BackwardArguments {
  const T* d_out;
  const T* x;
  const T* weight;
  const float* mean;  // or null
  const float* rstd;
  const T* residual_gradient;  // or null
  T* d_x;
  float* partial;  // [chunks, 1 or, with a mean, 2, width]
  Slots slots;
  int64_t rows;
};

// A block takes a chunk of rows, one after another. The parameters' gradients grow
// in shared memory, where every thread has its own columns. A row is read twice, the
// second time from the cache.
template <typename Slots, typename T>
__global__ void __launch_bounds__(kBackwardThreads) BackwardKernel(BackwardArguments<Slots, T> a) {
  TESSERA_SHARED(float, shared, [2][kMaximumWarps][2]);
  TESSERA_DYNAMIC_SHARED(float, sums);  // [weight, bias][element of a slot][slot]
  const Slots slots = a.slots;
  const int count = slots.count();
  const int parameters = a.mean == nullptr ? 1 : 2;
  const auto first_slot = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  for (int slot = first_slot; slot < count; slot += threads) {
    for (int i = 0; i < parameters * kElements; ++i) sums[i * count + slot] = 0;
  }
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * kNormalizationRows;
  const int64_t end = min(a.rows, first_row + kNormalizationRows);
  for (int64_t row = first_row; row < end; ++row) {
    const int64_t start = row * slots.width;
    const float mean = a.mean == nullptr ? 0.0f : a.mean[row];
    const float rstd = a.rstd[row];
    // The gradient of the normalised row, along the ones and along that row.
    float along[2] = {0, 0};
    for (int slot = first_slot; slot < count; slot += threads) {
      float gradient[kElements];
      float value[kElements];
      float weight[kElements];
      LoadSlot(a.d_out + start, slots, slot, gradient);
      LoadSlot(a.x + start, slots, slot, value);
      LoadSlot(a.weight, slots, slot, weight);
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const float inner = gradient[i] * weight[i];
        along[0] += inner;
        along[1] = fmaf(inner, (value[i] - mean) * rstd, along[1]);
      }
    }
    BlockSum(along, shared[row % 2]);
    const float along_ones = a.mean == nullptr ? 0.0f : along[0] / static_cast<float>(slots.width);
    const float along_normal = along[1] / static_cast<float>(slots.width);
    for (int slot = first_slot; slot < count; slot += threads) {
      float gradient[kElements];
      float value[kElements];
      float weight[kElements];
      float extra[kElements] = {};
      LoadSlot(a.d_out + start, slots, slot, gradient);
      LoadSlot(a.x + start, slots, slot, value);
      LoadSlot(a.weight, slots, slot, weight);
      if (a.residual_gradient != nullptr) {
        LoadSlot(a.residual_gradient + start, slots, slot, extra);
      }
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        const float normal = (value[i] - mean) * rstd;
        float* weight_sum = sums + i * count + slot;
        *weight_sum = fmaf(gradient[i], normal, *weight_sum);
        if (a.mean != nullptr) sums[(kElements + i) * count + slot] += gradient[i];
        const float centred = fmaf(gradient[i], weight[i], -along_ones);
        gradient[i] = fmaf(fmaf(-normal, along_normal, centred), rstd, extra[i]);
      }
      StoreSlot(gradient, slots, slot, a.d_x + start);
    }
  }
  for (int slot = first_slot; slot < count; slot += threads) {
    for (int parameter = 0; parameter < parameters; ++parameter) {
      float total[kElements];
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        total[i] = sums[(parameter * kElements + i) * count + slot];
      }
      const int64_t chunk = static_cast<int64_t>(blockIdx.x) * parameters + parameter;
      StoreSlot(total, slots, slot, a.partial + chunk * slots.width);
    }
  }
}

template <typename T>
T* ElementsOrNull(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : Elements<T>(*tensor);
}
const void* DataOrNull(const Tensor* tensor) { return tensor == nullptr ? nullptr : tensor->data; }

}  // namespace

absl::Status NormalizationForward(Lane& lane, const Tensor& x, const Tensor* residual,
                                  const Tensor* sum, const Tensor& weight, const Tensor* bias,
                                  float epsilon, const Tensor& out, const Tensor* mean,
                                  const Tensor& rstd) {
  const int64_t width = weight.elements();
  const int64_t rows = rstd.elements();
  return WithFloatType(x.dtype, [&](auto type) {
    using T = decltype(type);
    return WithRowSlots(
        width,
        [&](auto slots) {
          return ChooseForward<decltype(slots), T>(
              lane, {Elements<T>(x), ElementsOrNull<T>(residual), ElementsOrNull<T>(sum),
                     Elements<T>(weight), ElementsOrNull<T>(bias), epsilon, Elements<T>(out),
                     ElementsOrNull<float>(mean), Elements<float>(rstd), slots, rows});
        },
        x.data, DataOrNull(residual), DataOrNull(sum), weight.data, DataOrNull(bias), out.data);
  });
}

absl::Status NormalizationBackward(Lane& lane, const Tensor& d_out, const Tensor& x,
                                   const Tensor& weight, const Tensor* mean, const Tensor& rstd,
                                   const Tensor* residual_gradient, const Tensor& d_x,
                                   const Tensor& d_weight, const Tensor* d_bias,
                                   std::byte* workspace) {
  const int64_t width = weight.elements();
  const int64_t rows = rstd.elements();
  TESSERA_CHECK((mean == nullptr) == (d_bias == nullptr), "a bias comes with a mean");
  if (width > kMaximumBackwardWidth) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of ", width, " are too wide to normalise on a GPU"));
  }
  const int64_t parameters = mean == nullptr ? 1 : 2;
  const int64_t chunks = CeilDivide(rows, kNormalizationRows);
  auto* partial = reinterpret_cast<float*>(workspace);
  TESSERA_RETURN_IF_ERROR(WithFloatType(x.dtype, [&](auto type) {
    using T = decltype(type);
    return WithRowSlots(
        width,
        [&](auto slots) {
          const int64_t threads =
              std::min<int64_t>(kBackwardThreads, CeilDivide(slots.count(), kWarp) * kWarp);
          const int64_t shared_bytes =
              parameters * kElements * slots.count() * SizeOf(DType::kFloat32);
          const BackwardArguments<decltype(slots), T> arguments = {
              Elements<T>(d_out),
              Elements<T>(x),
              Elements<T>(weight),
              ElementsOrNull<float>(mean),
              Elements<float>(rstd),
              ElementsOrNull<T>(residual_gradient),
              Elements<T>(d_x),
              partial,
              slots,
              rows};
          return TESSERA_LAUNCH(lane, (BackwardKernel<decltype(slots), T>), chunks, threads,
                                shared_bytes, arguments);
        },
        d_out.data, x.data, weight.data, DataOrNull(residual_gradient), d_x.data, workspace);
  }));
  TESSERA_RETURN_IF_ERROR(SumChunks(lane, partial, chunks, parameters * width, d_weight));
  if (d_bias == nullptr) return absl::OkStatus();
  return SumChunks(lane, partial + width, chunks, parameters * width, *d_bias);
}

}  // namespace tessera::kernels::cuda
