#ifndef TESSERA_OFFLOAD_TIER_H_
#define TESSERA_OFFLOAD_TIER_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tessera {

// Where bytes of a run may live. A plan places everything on the device as yet;
// the other tiers are there for capacities and reports, and hold nothing.
enum class Tier : uint8_t { kDevice, kHost, kNvme };

inline constexpr std::array<Tier, 3> kTiers = {Tier::kDevice, Tier::kHost, Tier::kNvme};

inline absl::string_view NameOf(Tier tier) {
  constexpr std::array<absl::string_view, kTiers.size()> kNames = {"device", "host", "nvme"};
  return kNames[static_cast<size_t>(tier)];
}

}  // namespace tessera

#endif  // TESSERA_OFFLOAD_TIER_H_
