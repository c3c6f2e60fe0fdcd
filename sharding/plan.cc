#include "sharding/plan.h"

namespace tessera {

bool IsHostLane(LaneKind lane) {
  return lane == LaneKind::kHost || lane == LaneKind::kHostCompute || lane == LaneKind::kRead ||
         lane == LaneKind::kWrite;
}

// What is read from NVMe, or written there, is moved in whole multiples of its alignment.
int64_t GranuleOf(const PlanOptions& options, Tier tier) {
  bool has_nvme = false;
  ForEachPlacement(options.offload, [&](absl::string_view, const Placement& placement) {
    has_nvme = has_nvme || placement.tier == Tier::kNvme;
  });
  return tier == Tier::kDevice || !has_nvme ? kBufferAlignment : kNvmeAlignment;
}

Insertion InsertionOf(const PlanOptions& options, const Instruction& instruction) {
  if (instruction.operation == Operation::kAccumulate) {
    return {instruction.micro_step, 1, options.sum_group, false};
  }
  if (options.stage >= 2) {
    return {int64_t{instruction.micro_step} * options.world, options.world, options.sum_group,
            false};
  }
  const bool partial = options.accumulation > 1;
  return {0, options.world, partial ? 1 : options.sum_group, partial};
}

bool SumOrderIsCanonical(const PlanOptions& options) {
  const int64_t a = options.accumulation;
  const int64_t g = options.sum_group;
  if (options.stage >= 2 || a == 1 || options.world == 1) return true;
  const int64_t groups = a / g;
  return a % g == 0 && (groups & (groups - 1)) == 0;
}

uint64_t Fingerprint(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace tessera
