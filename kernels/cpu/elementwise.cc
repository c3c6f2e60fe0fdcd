#include "kernels/elementwise.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/blocks.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/random_words.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kBlock = 1024;

}  // namespace

absl::Status SumContributions(Lane& lane, absl::Span<const Tensor> contributions,
                              const Tensor& out) {
  ForBlocks<kBlock>(lane, out.elements(), [&](int64_t first, int64_t count) {
    alignas(64) float sum[kBlock];
    std::copy_n(contributions[0].as<float>() + first, count, sum);
    for (const Tensor& contribution : contributions.subspan(1)) {
      const float* values = contribution.as<float>() + first;
      for (int64_t i = 0; i < count; ++i) sum[i] += values[i];
    }
    StoreFloats(sum, first, count, out);
  });
  return absl::OkStatus();
}

absl::Status Add(Lane& lane, const Tensor& a, const Tensor& b, const Tensor& out) {
  ForBlocks<kBlock>(lane, out.elements(), [&](int64_t first, int64_t count) {
    alignas(64) float left[kBlock];
    alignas(64) float right[kBlock];
    LoadFloats(a, first, count, left);
    LoadFloats(b, first, count, right);
    for (int64_t i = 0; i < count; ++i) left[i] += right[i];
    StoreFloats(left, first, count, out);
  });
  return absl::OkStatus();
}

absl::Status Convert(Lane& lane, const Tensor& from, const Tensor& to) {
  ForBlocks<kBlock>(lane, to.elements(), [&](int64_t first, int64_t count) {
    alignas(64) float values[kBlock];
    LoadFloats(from, first, count, values);
    StoreFloats(values, first, count, to);
  });
  return absl::OkStatus();
}

absl::Status FillZero(Lane& lane, const Tensor& tensor) {
  auto* bytes = static_cast<std::byte*>(tensor.data);
  const int64_t size = SizeOf(tensor.dtype);
  ForBlocks<kBlock>(lane, tensor.elements(), [&](int64_t first, int64_t count) {
    std::memset(bytes + first * size, 0, count * size);
  });
  return absl::OkStatus();
}

absl::Status Dropout(Lane& lane, const Tensor& x, float probability, const RandomKey& key,
                     const Tensor& y) {
  const float scale = 1.0f / (1.0f - probability);
  ForBlocks<kBlock>(lane, x.elements(), [&](int64_t first, int64_t count) {
    alignas(64) uint32_t words[kBlock];
    alignas(64) float values[kBlock];
    RandomWords(key, first, kBlock, words);
    LoadFloats(x, first, count, values);
    for (int64_t i = 0; i < count; ++i) {
      values[i] = UnitFloat(words[i]) >= probability ? values[i] * scale : 0.0f;
    }
    StoreFloats(values, first, count, y);
  });
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
