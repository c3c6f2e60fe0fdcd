#ifndef TESSERA_SHARDING_HAPPENS_BEFORE_H_
#define TESSERA_SHARDING_HAPPENS_BEFORE_H_

#include <array>
#include <vector>

#include "sharding/plan.h"

namespace tessera {

// For every instruction, how many instructions of each lane are known to be
// complete once it is complete: by lane order and waits alone.
class HappensBefore {
 public:
  // Waits must point backwards in the list.
  explicit HappensBefore(const Plan& plan);

  // Whether `first` is complete before `second` starts. Never true for i, i.
  bool Ordered(int first, int second) const {
    return first != second && complete_[second][lane_[first]] > position_[first];
  }
  // The number of the lane's instructions that are complete when this one is.
  int Complete(int instruction, LaneKind lane) const {
    return complete_[instruction][static_cast<int>(lane)];
  }
  // The instruction's place in its own lane.
  int Position(int instruction) const { return position_[instruction]; }

 private:
  std::vector<std::array<int, kLanes>> complete_;
  std::vector<int> lane_;
  std::vector<int> position_;
};

// Calls visit(begin, end) for the bytes of its buffer that an access touches on
// `rank`. For Scope::kOthers that is the whole of the other ranks' shards: more
// than one piece of them, which only makes the checks stricter.
template <typename Visit>
void ForEachByteRange(const Buffer& buffer, const Access& access, int rank, Visit visit) {
  const int64_t own = rank * buffer.shard_bytes;
  switch (access.scope) {
    case Scope::kRange:
      if (access.bytes > 0) visit(access.begin, access.begin + access.bytes);
      break;
    case Scope::kOwn:
      if (access.bytes > 0) visit(own + access.begin, own + access.begin + access.bytes);
      break;
    case Scope::kOthers:
      if (own > 0) visit(int64_t{0}, own);
      if (own + buffer.shard_bytes < buffer.bytes) visit(own + buffer.shard_bytes, buffer.bytes);
      break;
  }
}

// The same for all ranks at once, to find conflicts: positions that two accesses
// share only if they touch the same byte on some rank, or might. A buffer of
// shards has two planes of positions behind its bytes, "own" and "others"; an
// access to a range of it may meet either, so it touches both in full.
template <typename Visit>
void ForEachConflictRange(const Buffer& buffer, const Access& access, Visit visit) {
  if (access.bytes == 0) return;
  const int64_t own_plane = buffer.bytes;
  const int64_t others_plane = own_plane + buffer.shard_bytes;
  switch (access.scope) {
    case Scope::kRange:
      visit(access.begin, access.begin + access.bytes);
      if (buffer.shard_bytes > 0) visit(own_plane, others_plane + buffer.shard_bytes);
      break;
    case Scope::kOwn:
      visit(own_plane + access.begin, own_plane + access.begin + access.bytes);
      break;
    case Scope::kOthers:
      visit(others_plane, others_plane + buffer.shard_bytes);
      break;
  }
}

}  // namespace tessera

#endif  // TESSERA_SHARDING_HAPPENS_BEFORE_H_
