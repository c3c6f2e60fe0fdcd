#include "kernels/gelu.h"

#include <algorithm>

#include "core/status.h"
#include "kernels/cpu/blocks.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kBlock = 256;  // elements
constexpr float kCubic = 0.044715f;
constexpr float kTwiceRoot = 1.5957691216f;  // 2 sqrt(2 / pi)

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), which is accurate in both tails.
float MinusTwiceU(float x) { return -kTwiceRoot * x * std::fma(kCubic * x, x, 1.0f); }

float Gelu(float x) { return x * (1.0f / (1.0f + Exp(MinusTwiceU(x)))); }

// Leaves Gelu(x) in *y.
float GeluDerivative(float x, float* y) {
  const float e = Exp(MinusTwiceU(x));
  const float gate = 1.0f / (1.0f + e);
  *y = x * gate;
  // e * gate is 1 - gate, without cancellation.
  const float slope = kTwiceRoot * std::fma(3.0f * kCubic * x, x, 1.0f);
  return std::fma(x * slope, gate * (e * gate), gate);
}

}  // namespace

absl::Status GeluForward(Lane& lane, const Tensor& x, const Tensor& y) {
  ForBlocks<kBlock>(lane, x.elements(), [&](int64_t first, int64_t count) {
    alignas(64) float values[kBlock];
    LoadFloats(x, first, count, values);
    for (int64_t i = 0; i < count; ++i) values[i] = Gelu(values[i]);
    StoreFloats(values, first, count, y);
  });
  return absl::OkStatus();
}

absl::Status GeluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                          const Tensor& dx) {
  ForBlocks<kBlock>(lane, x.elements(), [&](int64_t first, int64_t count) {
    alignas(64) float values[kBlock];
    alignas(64) float gradients[kBlock];
    LoadFloats(x, first, count, values);
    LoadFloats(dy, first, count, gradients);
    for (int64_t i = 0; i < count; ++i) gradients[i] *= GeluDerivative(values[i], &values[i]);
    StoreFloats(values, first, count, y);
    StoreFloats(gradients, first, count, dx);
  });
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
