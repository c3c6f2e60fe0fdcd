#include <algorithm>
#include <array>

#include "kernels/cuda/clear.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/elementwise.h"

namespace tessera::kernels::cuda {
namespace {

struct Sum {
  __device__ void operator()(int64_t /*first*/, const float (&in)[2][kMapElements],
                             float (&out)[kMapElements]) const {
#pragma unroll
    for (int i = 0; i < kMapElements; ++i) out[i] = in[0][i] + in[1][i];
  }
};

struct Copy {
  __device__ void operator()(int64_t /*first*/, const float (&in)[1][kMapElements],
                             float (&out)[kMapElements]) const {
#pragma unroll
    for (int i = 0; i < kMapElements; ++i) out[i] = in[0][i];
  }
};

struct Drop {
  RandomKey key;
  float probability;
  float scale;

  __device__ void operator()(int64_t first, const float (&in)[1][kMapElements],
                             float (&out)[kMapElements]) const {
#pragma unroll
    for (int i = 0; i < kMapElements; i += 4) {
      const std::array<uint32_t, 4> words = key.Block(static_cast<uint32_t>((first + i) / 4));
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        out[i + j] = UnitFloat(words[j]) >= probability ? in[0][i + j] * scale : 0.0f;
      }
    }
  }
};

constexpr int kMaximumContributions = 256;  // 2 KiB of arguments

struct Contributions {
  const float* data[kMaximumContributions];
  int count;
};

template <typename Out>
__global__ void __launch_bounds__(kMapThreads)
    SumContributionsKernel(int64_t elements, bool vector, Contributions contributions, Out* out) {
  const int64_t first =
      (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kMapElements;
  if (first >= elements) return;
  float sum[kMapElements];
  LoadFloats(contributions.data[0], first, elements, vector, sum);
  for (int c = 1; c < contributions.count; ++c) {
    float values[kMapElements];
    LoadFloats(contributions.data[c], first, elements, vector, values);
#pragma unroll
    for (int i = 0; i < kMapElements; ++i) sum[i] += values[i];
  }
  StoreFloats(sum, first, elements, vector, out);
}

}  // namespace

absl::Status SumContributions(Lane& lane, absl::Span<const Tensor> contributions,
                              const Tensor& out) {
  if (contributions.size() > kMaximumContributions) {
    return absl::UnimplementedError("too many contributions to one gradient for a GPU");
  }
  Contributions list = {{}, static_cast<int>(contributions.size())};
  bool vector = IsAligned(out.data);
  for (int c = 0; c < list.count; ++c) {
    list.data[c] = Elements<float>(contributions[c]);
    vector = vector && IsAligned(list.data[c]);
  }
  return WithFloatType(out.dtype, [&](auto type) {
    using T = decltype(type);
    return TESSERA_LAUNCH(lane, (SumContributionsKernel<T>),
                          CeilDivide(out.elements(), kMapThreads * kMapElements), kMapThreads, 0,
                          out.elements(), vector, list, Elements<T>(out));
  });
}

absl::Status Add(Lane& lane, const Tensor& a, const Tensor& b, const Tensor& out) {
  return WithFloatType(a.dtype, [&](auto a_type) {
    return WithFloatType(b.dtype, [&](auto b_type) {
      return WithFloatType(out.dtype, [&](auto out_type) {
        return Map(lane, out.elements(), Sum{}, Elements<decltype(out_type)>(out),
                   Elements<decltype(a_type)>(a), Elements<decltype(b_type)>(b));
      });
    });
  });
}

absl::Status Convert(Lane& lane, const Tensor& from, const Tensor& to) {
  return WithFloatType(from.dtype, [&](auto from_type) {
    return WithFloatType(to.dtype, [&](auto to_type) {
      return Map(lane, to.elements(), Copy{}, Elements<decltype(to_type)>(to),
                 Elements<decltype(from_type)>(from));
    });
  });
}

absl::Status FillZero(Lane& lane, const Tensor& tensor) {
  return Clear(lane, tensor.data, tensor.bytes());
}

absl::Status Dropout(Lane& lane, const Tensor& x, float probability, const RandomKey& key,
                     const Tensor& y) {
  const Drop drop = {key, probability, 1.0f / (1.0f - probability)};
  return WithFloatType(x.dtype, [&](auto x_type) {
    return WithFloatType(y.dtype, [&](auto y_type) {
      return Map(lane, x.elements(), drop, Elements<decltype(y_type)>(y),
                 Elements<decltype(x_type)>(x));
    });
  });
}

}  // namespace tessera::kernels::cuda
