#include "kernels/cuda/launch.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/gelu.h"

namespace tessera::kernels::cuda {
namespace {

constexpr float kCubic = 0.044715f;
constexpr float kTwiceRoot = 1.5957691216f;  // 2 sqrt(2 / pi)

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), which is accurate in both tails. The
// exponential is held below infinity, of which the derivative would make NaN.
__device__ float ExpOfMinusTwiceU(float x) {
  return expf(fminf(-kTwiceRoot * x * fmaf(kCubic * x, x, 1.0f), 88.0f));
}

struct Forward {
  __device__ void operator()(int64_t /*first*/, const float (&in)[1][kMapElements],
                             float (&out)[kMapElements]) const {
#pragma unroll
    for (int i = 0; i < kMapElements; ++i) {
      out[i] = in[0][i] * (1.0f / (1.0f + ExpOfMinusTwiceU(in[0][i])));
    }
  }
};

// Not a Map, since it has two outputs.
template <typename T>
__global__ void __launch_bounds__(kMapThreads)
    BackwardKernel(int64_t elements, bool vector, const T* x, const T* dy, T* y, T* dx) {
  const int64_t first =
      (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kMapElements;
  if (first >= elements) return;
  float value[kMapElements];
  float gradient[kMapElements];
  LoadFloats(x, first, elements, vector, value);
  LoadFloats(dy, first, elements, vector, gradient);
#pragma unroll
  for (int i = 0; i < kMapElements; ++i) {
    const float at = value[i];
    const float e = ExpOfMinusTwiceU(at);
    const float gate = 1.0f / (1.0f + e);
    value[i] = at * gate;
    // e * gate is 1 - gate, without cancellation.
    const float slope = kTwiceRoot * fmaf(3.0f * kCubic * at, at, 1.0f);
    gradient[i] *= fmaf(at * slope, gate * (e * gate), gate);
  }
  StoreFloats(value, first, elements, vector, y);
  StoreFloats(gradient, first, elements, vector, dx);
}

}  // namespace

absl::Status GeluForward(Lane& lane, const Tensor& x, const Tensor& y) {
  return WithFloatType(x.dtype, [&](auto type) {
    using T = decltype(type);
    return Map(lane, x.elements(), Forward{}, Elements<T>(y), Elements<T>(x));
  });
}

absl::Status GeluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                          const Tensor& dx) {
  const int64_t elements = x.elements();
  const bool vector =
      IsAligned(x.data) && IsAligned(dy.data) && IsAligned(y.data) && IsAligned(dx.data);
  return WithFloatType(x.dtype, [&](auto type) {
    using T = decltype(type);
    return TESSERA_LAUNCH(
        lane, (BackwardKernel<T>), CeilDivide(elements, kMapThreads * kMapElements), kMapThreads, 0,
        elements, vector, Elements<T>(x), Elements<T>(dy), Elements<T>(y), Elements<T>(dx));
  });
}

}  // namespace tessera::kernels::cuda
