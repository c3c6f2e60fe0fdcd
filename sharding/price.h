#ifndef TESSERA_SHARDING_PRICE_H_
#define TESSERA_SHARDING_PRICE_H_

#include <array>

#include "sharding/plan.h"

namespace tessera {

// What a plan costs, per rank.
struct Price {
  // Most bytes of a category that are alive at once. The categories need not peak
  // together, so their sum may be more than the arena.
  std::array<int64_t, kCategories> memory = {};
  int64_t peak = 0;                // the arena
  int64_t bytes_sent = 0;          // gathers and exchanges, in one step
  int64_t control_bytes_sent = 0;  // losses and norm
};
Price PriceOf(const Plan& plan);

}  // namespace tessera

#endif  // TESSERA_SHARDING_PRICE_H_
