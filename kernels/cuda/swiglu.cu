#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"
#include "kernels/swiglu.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kElements = kSlotElements;

__device__ float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// A block for kThreads slots (blockIdx.y) of a row (blockIdx.x). Without dy only y.
template <typename Slots, typename T>
__global__ void __launch_bounds__(kThreads)
    SwiGluKernel(const T* x, const T* dy, Slots slots, T* y, T* dx) {
  const auto slot = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (slot >= slots.count()) return;
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int64_t gate_start = 2 * row * slots.width;
  const int64_t up_start = gate_start + slots.width;
  float gate[kElements];
  float up[kElements];
  LoadSlot(x + gate_start, slots, slot, gate);
  LoadSlot(x + up_start, slots, slot, up);
  float out[kElements];
#pragma unroll
  for (int i = 0; i < kElements; ++i) out[i] = up[i] * (gate[i] * Sigmoid(gate[i]));
  StoreSlot(out, slots, slot, y + row * slots.width);
  if (dy == nullptr) return;
  float gradient[kElements];
  LoadSlot(dy + row * slots.width, slots, slot, gradient);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const float sigmoid = Sigmoid(gate[i]);
    const float silu = gate[i] * sigmoid;
    // The derivative of silu: sigmoid + silu (1 - sigmoid).
    const float slope = fmaf(silu, Sigmoid(-gate[i]), sigmoid);
    gate[i] = gradient[i] * up[i] * slope;
    up[i] = gradient[i] * silu;
  }
  StoreSlot(gate, slots, slot, dx + gate_start);
  StoreSlot(up, slots, slot, dx + up_start);
}

absl::Status SwiGlu(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                    const Tensor& dx) {
  if (y.elements() == 0) return absl::OkStatus();
  const int64_t width = y.shape.back();
  return WithFloatType(x.dtype, [&](auto type) {
    using T = decltype(type);
    return WithRowSlots(
        width,
        [&](auto slots) {
          const Extents grid(y.elements() / width, CeilDivide(slots.count(), kThreads));
          return TESSERA_LAUNCH(lane, (SwiGluKernel<decltype(slots), T>), grid, kThreads, 0,
                                Elements<T>(x), static_cast<const T*>(dy.data), slots,
                                Elements<T>(y), static_cast<T*>(dx.data));
        },
        x.data, dy.data, y.data, dx.data);
  });
}

}  // namespace

absl::Status SwiGluForward(Lane& lane, const Tensor& x, const Tensor& y) {
  return SwiGlu(lane, x, Tensor{}, y, Tensor{});
}

absl::Status SwiGluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                            const Tensor& dx) {
  return SwiGlu(lane, x, dy, y, dx);
}

}  // namespace tessera::kernels::cuda
