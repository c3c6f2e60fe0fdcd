#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

namespace tessera::kernels::cpu {

absl::Status Copy(Lane& lane, const std::byte* from, std::byte* to, int64_t bytes) {
  constexpr int64_t kTile = int64_t{1} << 20;
  lane.pool().For((bytes + kTile - 1) / kTile, [&](int64_t tile) {
    const int64_t first = tile * kTile;
    std::memcpy(to + first, from + first, static_cast<size_t>(std::min(kTile, bytes - first)));
  });
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
