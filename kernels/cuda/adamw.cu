#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/adamw.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 4;  // of a thread: 16 bytes of every fp32 tensor
// Enough to fill any GPU; each reads the clip factor from the host's memory once.
constexpr int64_t kMaximumBlocks = 2048;

struct ToNearest {
  __device__ void operator()(int64_t /*first*/, float (&/*values*/)[kElements]) const {}
};

struct Stochastically {
  StochasticRounding rounding;

  __device__ void operator()(int64_t first, float (&values)[kElements]) const {
    const std::array<uint32_t, 4> words =
        rounding.key.Block(static_cast<uint32_t>((rounding.first + first) / 4));
#pragma unroll
    for (int i = 0; i < kElements; ++i) values[i] = RoundStochastically(values[i], words[i]);
  }
};

template <typename Gradient, typename Parameter, typename Rounding>
__global__ void __launch_bounds__(kThreads)
    AdamWKernel(AdamWScalars scalars, int64_t elements, bool vector, const Gradient* gradient,
                const double* clip_factor, float* master, float* first_moment, float* second_moment,
                Parameter* parameter, Rounding rounding) {
  TESSERA_SHARED(float, shared_factor, [1]);
  if (threadIdx.x == 0) {
    shared_factor[0] = clip_factor == nullptr ? 1.0f : static_cast<float>(*clip_factor);
  }
  __syncthreads();
  const float factor = shared_factor[0];
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * kElements;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kElements;
       i < elements; i += stride) {
    float g[kElements];
    float p[kElements];
    float m[kElements];
    float v[kElements];
    LoadFloats(gradient, i, elements, vector, g);
    LoadFloats(master, i, elements, vector, p);
    LoadFloats(first_moment, i, elements, vector, m);
    LoadFloats(second_moment, i, elements, vector, v);
#pragma unroll
    for (int e = 0; e < kElements; ++e) AdamWUpdate(scalars, g[e] * factor, p[e], m[e], v[e]);
    StoreFloats(p, i, elements, vector, master);
    StoreFloats(m, i, elements, vector, first_moment);
    StoreFloats(v, i, elements, vector, second_moment);
    if (parameter == nullptr) continue;
    rounding(i, p);
    StoreFloats(p, i, elements, vector, parameter);
  }
}

}  // namespace

absl::Status AdamW(Lane& lane, const AdamWScalars& scalars, const Tensor& gradient,
                   const double* clip_factor, const Tensor& master, const Tensor& first_moment,
                   const Tensor& second_moment, const Tensor* parameter,
                   const StochasticRounding* rounding) {
  const int64_t elements = master.elements();
  const Tensor copy = parameter == nullptr ? Tensor{} : *parameter;
  const bool vector = IsAligned(gradient.data) && IsAligned(master.data) &&
                      IsAligned(first_moment.data) && IsAligned(second_moment.data) &&
                      IsAligned(copy.data);
  const int64_t blocks = std::min(kMaximumBlocks, CeilDivide(elements, kThreads * kElements));
  return WithFloatType(gradient.dtype, [&](auto gradient_type) {
    using Gradient = decltype(gradient_type);
    const auto launch = [&](auto* parameter_data, auto mode) {
      using Parameter = std::remove_pointer_t<decltype(parameter_data)>;
      return TESSERA_LAUNCH(lane, (AdamWKernel<Gradient, Parameter, decltype(mode)>), blocks,
                            kThreads, 0, scalars, elements, vector, Elements<Gradient>(gradient),
                            clip_factor, Elements<float>(master), Elements<float>(first_moment),
                            Elements<float>(second_moment), parameter_data, mode);
    };
    if (rounding != nullptr) return launch(Elements<bfloat16>(copy), Stochastically{*rounding});
    return WithFloatType(copy.dtype, [&](auto copy_type) {
      return launch(Elements<decltype(copy_type)>(copy), ToNearest{});
    });
  });
}

}  // namespace tessera::kernels::cuda
