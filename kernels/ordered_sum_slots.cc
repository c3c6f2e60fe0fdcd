#include <bit>

#include "core/status.h"
#include "kernels/ordered_sum.h"

// What both backends ask of a counter.
namespace tessera::kernels {
namespace {

void CheckSlots(absl::Span<const Slot> slots, const std::vector<int>& levels, int64_t elements) {
  TESSERA_CHECK(slots.size() == levels.size(), "wrong number of slots");
  for (size_t i = 0; i < slots.size(); ++i) {
    TESSERA_CHECK(slots[i].level == levels[i], "wrong slot");
    TESSERA_CHECK(slots[i].sum.elements() == elements, "wrong size of a slot");
  }
}

}  // namespace

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

int64_t CheckedElements(const AccumulateArguments& arguments) {
  const bool finish = arguments.total != nullptr;
  const int64_t leaves = arguments.leaves_before + static_cast<int64_t>(arguments.pieces.size());
  TESSERA_CHECK(leaves > 0, "a sum of nothing");
  const int64_t elements = finish                     ? arguments.total->elements()
                           : arguments.pieces.empty() ? arguments.slots_before[0].sum.elements()
                                                      : arguments.pieces[0].elements();
  for (const Tensor& piece : arguments.pieces) {
    TESSERA_CHECK(piece.elements() == elements, "pieces differ in size");
  }
  CheckSlots(arguments.slots_before, OccupiedSlots(arguments.leaves_before, arguments.group),
             elements);
  CheckSlots(arguments.slots_after,
             finish ? std::vector<int>{} : OccupiedSlots(leaves, arguments.group), elements);
  return elements;
}

}  // namespace tessera::kernels
