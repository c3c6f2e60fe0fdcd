#ifndef TESSERA_OFFLOAD_TIER_H_
#define TESSERA_OFFLOAD_TIER_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tessera {

// Where bytes of a run may live. The host's holds what host work reads and writes
// (batches, losses, the clip factor) and, like NVMe, what is placed there.
enum class Tier : uint8_t { kDevice, kHost, kNvme };

inline constexpr std::array<Tier, 3> kTiers = {Tier::kDevice, Tier::kHost, Tier::kNvme};

inline absl::string_view NameOf(Tier tier) {
  constexpr std::array<absl::string_view, kTiers.size()> kNames = {"device", "host", "nvme"};
  return kNames[static_cast<size_t>(tier)];
}

// The least multiple of `multiple` that is not less than `bytes`.
inline constexpr int64_t RoundedUp(int64_t bytes, int64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// In the NVMe tier offsets, and sizes but for a transfer's end, are multiples of this
// many bytes, and so are addresses of the memory on the other side: what direct I/O
// asks for on every common disk.
inline constexpr int64_t kNvmeAlignment = 4096;

// Bytes of every tier.
struct TierBytes {
  std::array<int64_t, kTiers.size()> bytes = {};

  int64_t& operator[](Tier tier) { return bytes[static_cast<size_t>(tier)]; }
  int64_t operator[](Tier tier) const { return bytes[static_cast<size_t>(tier)]; }
  // The larger of each tier.
  static TierBytes Max(const TierBytes& a, const TierBytes& b) {
    TierBytes larger;
    for (const Tier tier : kTiers) larger[tier] = a[tier] > b[tier] ? a[tier] : b[tier];
    return larger;
  }
};
inline constexpr TierBytes kUnlimitedTiers = {
    {int64_t{1} << 62, int64_t{1} << 62, int64_t{1} << 62}};

}  // namespace tessera

#endif  // TESSERA_OFFLOAD_TIER_H_
