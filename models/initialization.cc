#include "models/initialization.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/philox.h"
#include "core/status.h"

namespace tessera {
namespace {

constexpr double kTwoPi = 6.283185307179586;

// Four standard normal numbers from four words: Box and Muller, "A note on the
// generation of random normal deviates" (1958), twice.
std::array<double, 4> NormalBlock(const std::array<uint32_t, 4>& words) {
  std::array<double, 4> normals;
  for (size_t i = 0; i < 4; i += 2) {
    const double radius = std::sqrt(-2 * std::log((words[i] + 1.0) * 0x1p-32));
    const double angle = kTwoPi * (words[i + 1] * 0x1p-32);
    normals[i] = radius * std::cos(angle);
    normals[i + 1] = radius * std::sin(angle);
  }
  return normals;
}

void FillNormal(float deviation, const RandomKey& key, int64_t first, absl::Span<float> out) {
  const int64_t end = first + static_cast<int64_t>(out.size());
  TESSERA_CHECK(end <= int64_t{1} << 34, "more elements than a random stream has");
  for (int64_t block = first / 4; block * 4 < end; ++block) {
    const std::array<double, 4> normals = NormalBlock(key.Block(static_cast<uint32_t>(block)));
    for (int64_t i = std::max(first, block * 4); i < std::min(end, block * 4 + 4); ++i) {
      out[i - first] = static_cast<float>(static_cast<double>(deviation) * normals[i % 4]);
    }
  }
}

}  // namespace

void InitializeParameter(const ParameterSpec& parameter, uint64_t seed, uint32_t stream,
                         int64_t first, absl::Span<float> out) {
  switch (parameter.initialization) {
    case ParameterSpec::Initialization::kZeros:
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    case ParameterSpec::Initialization::kOnes:
      std::fill(out.begin(), out.end(), 1.0f);
      return;
    case ParameterSpec::Initialization::kNormal:
      FillNormal(parameter.deviation, {seed, RandomPurpose::kInitialization, stream}, first, out);
      return;
  }
}

}  // namespace tessera
