#ifndef TESSERA_KERNELS_ORDERED_SUM_H_
#define TESSERA_KERNELS_ORDERED_SUM_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// The canonical sum adds leaves in order inside groups of `group`, and the groups
// as a binary tree, neighbours first, with a carry counter: after g groups it
// holds one partial sum of 2^l groups for every bit l that is set in g, and the
// sum of the group that is still open, if one is.
inline constexpr int kOpenGroup = -1;

// What a counter holds after `leaves` leaves: levels, strictly falling, the open
// group last.
std::vector<int> OccupiedSlots(int64_t leaves, int64_t group);

struct Slot {
  int level = 0;  // or kOpenGroup
  Tensor sum;     // fp32
};

struct AccumulateArguments {
  int64_t leaves_before = 0;            // what the counter holds already
  int64_t group = 1;                    // leaves that are added in order
  absl::Span<const Tensor> pieces;      // the next leaves, in order; fp32 or bf16
  absl::Span<const Slot> slots_before;  // as OccupiedSlots(leaves_before, group)
  // As OccupiedSlots(leaves_before + pieces, group); empty if `total` is set.
  // May share memory with the slot of the same level before, with no other.
  absl::Span<const Slot> slots_after;
  // If set, the sum is finished into it: what is pending merges from the right,
  // and the result is rounded once to total's dtype. May be a piece or a slot of
  // that dtype.
  const Tensor* total = nullptr;
};

// The elements of every tensor in `arguments`, once it is checked that they and the
// slots are as said above.
int64_t CheckedElements(const AccumulateArguments& arguments);

// Inserts `pieces` into a counter of as many elements. All sums are fp32, and the
// same whatever the split of the leaves into calls. Unimplemented on a GPU for more
// than 2,048 pieces in a call.
absl::Status AccumulateOrdered(Lane& lane, const AccumulateArguments& arguments);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_ORDERED_SUM_H_
