#include "kernels/swiglu.h"

#include <algorithm>

#include "core/status.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kBlock = 256;  // elements of a row
constexpr int64_t kRows = 16;    // of a tile

float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

// Calls body(gate, up, out, count) for blocks that cover y, with where they start in
// x's two halves and in y.
template <typename Body>
void ForBlocks(Lane& lane, const Tensor& y, const Body& body) {
  const int64_t width = y.shape.back();
  if (y.elements() == 0) return;
  const int64_t rows = y.elements() / width;
  lane.pool().For((rows + kRows - 1) / kRows, [&](int64_t tile) {
    Vectorized([&] {
      for (int64_t row = tile * kRows; row < std::min(rows, (tile + 1) * kRows); ++row) {
        for (int64_t first = 0; first < width; first += kBlock) {
          const int64_t gate = 2 * row * width + first;
          body(gate, gate + width, row * width + first, std::min(kBlock, width - first));
        }
      }
    });
  });
}

}  // namespace

absl::Status SwiGluForward(Lane& lane, const Tensor& x, const Tensor& y) {
  ForBlocks(lane, y, [&](int64_t gate_start, int64_t up_start, int64_t out, int64_t count) {
    alignas(64) float gate[kBlock];
    alignas(64) float up[kBlock];
    LoadFloats(x, gate_start, count, gate);
    LoadFloats(x, up_start, count, up);
    for (int64_t i = 0; i < count; ++i) up[i] *= gate[i] * Sigmoid(gate[i]);
    StoreFloats(up, out, count, y);
  });
  return absl::OkStatus();
}

absl::Status SwiGluBackward(Lane& lane, const Tensor& x, const Tensor& dy, const Tensor& y,
                            const Tensor& dx) {
  ForBlocks(lane, y, [&](int64_t gate_start, int64_t up_start, int64_t out, int64_t count) {
    alignas(64) float gate[kBlock];
    alignas(64) float up[kBlock];
    alignas(64) float gradient[kBlock];
    alignas(64) float value[kBlock];
    LoadFloats(x, gate_start, count, gate);
    LoadFloats(x, up_start, count, up);
    LoadFloats(dy, out, count, gradient);
    for (int64_t i = 0; i < count; ++i) {
      const float sigmoid = Sigmoid(gate[i]);
      const float silu = gate[i] * sigmoid;
      // The derivative of silu: sigmoid + silu (1 - sigmoid).
      const float slope = std::fma(silu, Sigmoid(-gate[i]), sigmoid);
      value[i] = silu * up[i];
      gate[i] = gradient[i] * up[i] * slope;
      up[i] = gradient[i] * silu;
    }
    StoreFloats(value, out, count, y);
    StoreFloats(gate, gate_start, count, dx);
    StoreFloats(up, up_start, count, dx);
  });
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
