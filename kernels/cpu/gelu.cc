#include "kernels/gelu.h"

#include <algorithm>

#include "core/status.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kTile = 16384;  // elements
constexpr float kCubic = 0.044715f;
constexpr float kTwiceRoot = 1.5957691216f;  // 2 sqrt(2 / pi)

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), which is accurate in both tails.
float MinusTwiceU(float x) { return -kTwiceRoot * x * std::fma(kCubic * x, x, 1.0f); }

float Gelu(float x) { return x / (1.0f + Exp(MinusTwiceU(x))); }

float GeluDerivative(float x) {
  const float e = Exp(MinusTwiceU(x));
  const float gate = 1.0f / (1.0f + e);
  // e * gate is 1 - gate, without cancellation.
  const float slope = kTwiceRoot * std::fma(3.0f * kCubic * x, x, 1.0f);
  return std::fma(x * slope, gate * (e * gate), gate);
}

template <typename T>
void Forward(ThreadPool& pool, const Tensor& x, const Tensor& y) {
  const T* from = x.as<T>();
  T* to = y.as<T>();
  const int64_t elements = x.elements();
  pool.For((elements + kTile - 1) / kTile, [=](int64_t tile) {
    const int64_t end = std::min(elements, (tile + 1) * kTile);
    for (int64_t i = tile * kTile; i < end; ++i) to[i] = static_cast<T>(Gelu(ToFloat(from[i])));
  });
}

template <typename T>
void Backward(ThreadPool& pool, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const T* input = x.as<T>();
  const T* from = dy.as<T>();
  T* to = dx.as<T>();
  const int64_t elements = x.elements();
  pool.For((elements + kTile - 1) / kTile, [=](int64_t tile) {
    const int64_t end = std::min(elements, (tile + 1) * kTile);
    for (int64_t i = tile * kTile; i < end; ++i) {
      to[i] = static_cast<T>(ToFloat(from[i]) * GeluDerivative(ToFloat(input[i])));
    }
  });
}

}  // namespace

absl::Status GeluForward(Lane& lane, const Tensor& x, const Tensor& y) {
  TESSERA_CHECK(x.elements() == y.elements(), "shapes differ");
  if (x.dtype == DType::kBFloat16) {
    Forward<BFloat16>(lane.pool(), x, y);
  } else {
    Forward<float>(lane.pool(), x, y);
  }
  return absl::OkStatus();
}

absl::Status GeluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  TESSERA_CHECK(x.elements() == dy.elements() && x.elements() == dx.elements(), "shapes differ");
  if (x.dtype == DType::kBFloat16) {
    Backward<BFloat16>(lane.pool(), x, dy, dx);
  } else {
    Backward<float>(lane.pool(), x, dy, dx);
  }
  return absl::OkStatus();
}

}  // namespace tessera::kernels
