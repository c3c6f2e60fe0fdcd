#ifndef TESSERA_SHARDING_PRICE_H_
#define TESSERA_SHARDING_PRICE_H_

#include <array>

#include "offload/placement.h"
#include "offload/tier.h"
#include "sharding/plan.h"

namespace tessera {

// What a plan costs, per rank.
struct Price {
  // Most bytes of a category that are alive at once in a tier. The categories need
  // not peak together, so their sum may be more than the tier's arena.
  std::array<TierBytes, kCategories> memory = {};
  TierBytes peak;                  // the arenas
  int64_t bytes_sent = 0;          // gathers and exchanges, in one step
  int64_t control_bytes_sent = 0;  // losses and norm
  TierTraffic traffic;             // between the rank's tiers, in one step
};
Price PriceOf(const Plan& plan);

// Of any plan, placed or not.
TierTraffic TrafficOf(const Plan& plan);

}  // namespace tessera

#endif  // TESSERA_SHARDING_PRICE_H_
