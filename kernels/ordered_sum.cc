#include "kernels/ordered_sum.h"

#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(AccumulateOrdered);

std::vector<int> OccupiedSlots(int64_t leaves, int64_t group) {
  TESSERA_CHECK(leaves >= 0 && group >= 1, "no such counter");
  std::vector<int> levels;
  const auto groups = static_cast<uint64_t>(leaves / group);
  for (int level = static_cast<int>(std::bit_width(groups)) - 1; level >= 0; --level) {
    if ((groups >> level & 1) != 0) levels.push_back(level);
  }
  if (leaves % group != 0) levels.push_back(kOpenGroup);
  return levels;
}

absl::Status AccumulateOrdered(Lane& lane, const AccumulateArguments& arguments) {
  TESSERA_DISPATCH(AccumulateOrdered, lane, arguments);
}

}  // namespace tessera::kernels
