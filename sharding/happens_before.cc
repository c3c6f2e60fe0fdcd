#include "sharding/happens_before.h"

#include <algorithm>

namespace tessera {

HappensBefore::HappensBefore(const Plan& plan) {
  const size_t count = plan.instructions.size();
  complete_.resize(count);
  lane_.resize(count);
  position_.resize(count);
  std::array<int, kLanes> last;  // of each lane, or -1
  last.fill(-1);
  std::array<int, kLanes> length = {};
  for (size_t i = 0; i < count; ++i) {
    const Instruction& instruction = plan.instructions[i];
    const int lane = static_cast<int>(instruction.lane);
    std::array<int, kLanes>& complete = complete_[i];
    if (last[lane] >= 0) complete = complete_[last[lane]];
    for (int wait : instruction.waits) {
      for (int l = 0; l < kLanes; ++l) complete[l] = std::max(complete[l], complete_[wait][l]);
    }
    lane_[i] = lane;
    position_[i] = length[lane]++;
    complete[lane] = length[lane];
    last[lane] = static_cast<int>(i);
  }
}

}  // namespace tessera
