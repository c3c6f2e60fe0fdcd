#include "kernels/adamw.h"

#include <algorithm>

#include "kernels/cpu/adamw_block.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/random_words.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kTile = 16384;
constexpr int64_t kBlock = 1024;

// `first` counts from the tensor's start.
void Round(const StochasticRounding& rounding, int64_t first, int64_t count, const float* values,
           float* rounded) {
  alignas(64) uint32_t words[kBlock];
  RandomWords(rounding.key, rounding.first + first, kBlock, words);
  for (int64_t i = 0; i < count; ++i) rounded[i] = RoundStochastically(values[i], words[i]);
}

}  // namespace

absl::Status AdamW(Lane& lane, const AdamWScalars& scalars, const Tensor& gradient,
                   const double* clip_factor, const Tensor& master, const Tensor& first_moment,
                   const Tensor& second_moment, const Tensor* parameter,
                   const StochasticRounding* rounding) {
  const int64_t elements = master.elements();
  static const AdamWBlock update = ChooseAdamWBlock();
  const float factor = clip_factor == nullptr ? 1.0f : static_cast<float>(*clip_factor);
  lane.pool().For((elements + kTile - 1) / kTile, [&](int64_t tile) {
    alignas(64) float gradients[kBlock];
    const int64_t end = std::min(elements, (tile + 1) * kTile);
    for (int64_t first = tile * kTile; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      LoadFloats(gradient, first, count, gradients);
      float* values = master.as<float>() + first;
      update(scalars, gradients, factor, count, values, first_moment.as<float>() + first,
             second_moment.as<float>() + first);
      if (parameter == nullptr) continue;
      if (rounding != nullptr) {
        Round(*rounding, first, count, values, gradients);
        values = gradients;
      }
      StoreFloats(values, first, count, *parameter);
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
