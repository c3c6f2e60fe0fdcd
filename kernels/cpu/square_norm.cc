#include "kernels/square_norm.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/exact_sum.h"
#include "kernels/cpu/convert.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kTile = 64 * kSquareNormChunk;
constexpr int64_t kSums = kSquareNormSums;

// A float's square is exact in a double.
double ChunkSquares(const Tensor& x, int64_t first, int64_t count) {
  alignas(64) float values[kSquareNormChunk];
  LoadFloats(x, first, count, values);
  std::fill(values + count, values + kSquareNormChunk, 0.0f);
  double sums[kSums] = {};
  for (int64_t i = 0; i < kSquareNormChunk; i += kSums) {
    for (int64_t j = 0; j < kSums; ++j) {
      const double value = values[i + j];
      sums[j] += value * value;
    }
  }
  for (int64_t half = kSums / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

}  // namespace

absl::Status SquareNorm(Lane& lane, const Tensor& x, const Tensor& accumulator, bool add) {
  ExactSum total;
  if (add) std::memcpy(total.words.data(), accumulator.as<int64_t>(), sizeof(total.words));
  std::mutex mutex;
  const int64_t elements = x.elements();
  lane.pool().For((elements + kTile - 1) / kTile, [&](int64_t tile) {
    ExactSum sum;
    const int64_t end = std::min(elements, (tile + 1) * kTile);
    for (int64_t first = tile * kTile; first < end; first += kSquareNormChunk) {
      sum.Add(ChunkSquares(x, first, std::min(kSquareNormChunk, end - first)));
    }
    const std::lock_guard<std::mutex> lock(mutex);
    total.Merge(sum);
  });
  std::memcpy(accumulator.as<int64_t>(), total.words.data(), sizeof(total.words));
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
