#include "sharding/fit.h"

#include <algorithm>
#include <vector>

#include "kernels/ordered_sum.h"
#include "sharding/build.h"
#include "sharding/layout.h"
#include "sharding/price.h"

namespace tessera {
namespace {

// Bytes per second: a PCIe 4.0 link of 16 lanes, one NVMe disk, and what a host's update
// moves through its memory.
constexpr double kCopyRate = 25e9;
constexpr double kReadRate = 3e9;
constexpr double kWriteRate = 2e9;
constexpr double kUpdateRate = 40e9;

struct Candidate {
  Offload offload;
  double seconds = 0;
  TierBytes held;  // between steps: it can do with no less
};

// Bytes of memory that updating an element takes: the gradient, the parameter, and
// three fp32 values that are read and written.
int64_t UpdateBytes(DType dtype) { return 2 * SizeOf(dtype) + 6 * SizeOf(DType::kFloat32); }

absl::StatusOr<Candidate> Consider(const Model& model, PlanOptions options,
                                   const Offload& offload) {
  options.offload = offload;
  options.tile_elements = int64_t{1} << 40;  // tiles change neither, but make many instructions
  // Of many micro-steps, two are listed, which tell what one more adds.
  const int accumulation = options.accumulation;
  const int listed = std::min(accumulation, 2);
  options.accumulation = listed;
  TESSERA_ASSIGN_OR_RETURN(const Plan plan, ListPlan(model, options));
  Candidate candidate;
  candidate.offload = offload;
  TierTraffic traffic = TrafficOf(plan);
  if (accumulation > listed) {
    options.accumulation = listed + 1;
    TESSERA_ASSIGN_OR_RETURN(const Plan longer, ListPlan(model, options));
    const TierTraffic more = TrafficOf(longer);
    const int64_t times = accumulation - listed;
    traffic = {traffic.copied_in + times * (more.copied_in - traffic.copied_in),
               traffic.copied_out + times * (more.copied_out - traffic.copied_out),
               traffic.read + times * (more.read - traffic.read),
               traffic.written + times * (more.written - traffic.written)};
  }
  candidate.seconds = static_cast<double>(traffic.copied_in + traffic.copied_out) / kCopyRate +
                      static_cast<double>(traffic.read) / kReadRate +
                      static_cast<double>(traffic.written) / kWriteRate;
  for (const Instruction& instruction : plan.instructions) {
    const bool on_host = instruction.lane == LaneKind::kHostCompute;
    if (instruction.operation != Operation::kUpdate || !on_host) continue;
    candidate.seconds +=
        static_cast<double>(instruction.elements * UpdateBytes(model.dtype)) / kUpdateRate;
  }
  for (const Buffer& buffer : plan.buffers) {
    if (buffer.persistent) candidate.held[buffer.tier] += buffer.bytes;
  }
  return candidate;
}

bool Fits(const TierBytes& bytes, const TierBytes& capacity) {
  return std::all_of(kTiers.begin(), kTiers.end(),
                     [&](Tier tier) { return bytes[tier] <= capacity[tier]; });
}

// Which categories leave the device.
unsigned Leaving(const Offload& offload) {
  unsigned categories = 0;
  ForEachPlacement(offload, [&](absl::string_view, const Placement& placement) {
    categories = 2 * categories + (placement.tier != Tier::kDevice ? 1 : 0);
  });
  return categories;
}

// The most pending sums of a counter in a step of so many micro-steps.
int64_t MostSlots(const PlanOptions& options, int accumulation) {
  const int64_t leaves = options.stage >= 2 ? options.world : 1;  // of a micro-step
  size_t most = 0;
  for (int steps = 1; steps < accumulation; ++steps) {
    most = std::max(most, kernels::OccupiedSlots(steps * leaves, options.sum_group).size());
  }
  return static_cast<int64_t>(most);
}

absl::StatusOr<TierBytes> PlannedBytes(const Model& model, PlanOptions options,
                                       const Offload& offload) {
  options.offload = offload;
  TESSERA_ASSIGN_OR_RETURN(const PlanSet plans, BuildPlans(model, options));
  return plans.arena_bytes;
}

constexpr int kFew = 4;  // micro-steps that are planned where there are more

// The same, but a step of many micro-steps is planned with few of them, and what they
// would have beside that is added: the counters' other sums, and batches.
absl::StatusOr<TierBytes> EstimatedBytes(const Model& model, PlanOptions options,
                                         const Offload& offload) {
  const int accumulation = options.accumulation;
  const int64_t more_slots = MostSlots(options, accumulation) - MostSlots(options, kFew);
  options.accumulation = kFew;
  TESSERA_ASSIGN_OR_RETURN(TierBytes bytes, PlannedBytes(model, options, offload));
  options.offload = offload;
  std::vector<UnitPartition> partitions;
  for (const UnitSpec& unit : model.units) {
    TESSERA_ASSIGN_OR_RETURN(partitions.emplace_back(), PartitionUnit(unit, options.world));
  }
  options.accumulation = accumulation;
  const Layout layout(model, options, partitions);
  for (size_t u = 0; u < partitions.size(); ++u) {
    const UnitPartition& partition = partitions[u];
    const int64_t elements = options.stage >= 2 ? partition.shard : partition.padded;
    const Tier tier = layout.SumsOnHost(static_cast<int>(u)) ? Tier::kHost : Tier::kDevice;
    bytes[tier] += more_slots * elements * SizeOf(DType::kFloat32);
  }
  for (const TensorSpec& field : model.fields) {
    bytes[Tier::kHost] += (accumulation - kFew) * Aligned(options.micro_sequences * BytesOf(field));
  }
  return bytes;
}

// The run's bytes: estimated, unless an estimate is too rough to tell whether they fit.
absl::StatusOr<TierBytes> NeededBytes(const Model& model, const PlanOptions& options,
                                      const Offload& offload, const TierBytes& capacity) {
  if (options.accumulation > kFew) {
    TESSERA_ASSIGN_OR_RETURN(const TierBytes bytes, EstimatedBytes(model, options, offload));
    const bool rough = std::any_of(kTiers.begin(), kTiers.end(), [&](Tier tier) {
      return std::abs(bytes[tier] - capacity[tier]) < bytes[tier] / 16;
    });
    if (!rough) return bytes;
  }
  return PlannedBytes(model, options, offload);
}

// Every placement of whole categories.
std::vector<Offload> Placements(const Offload& given, const Freedom& freedom, bool has_nvme) {
  std::vector<Offload> placements = {given};
  const auto free = [&](bool is_free, Placement Offload::*category) {
    if (!is_free) return;
    std::vector<Offload> more;
    for (Offload offload : placements) {
      for (const Tier tier : kTiers) {
        if (tier == Tier::kNvme && !has_nvme) continue;
        offload.*category = {tier, 1};
        more.push_back(offload);
      }
    }
    placements = std::move(more);
  };
  free(freedom.optimizer, &Offload::optimizer);
  free(freedom.gradients, &Offload::gradients);
  free(freedom.parameters, &Offload::parameters);
  free(freedom.activations, &Offload::activations);
  return placements;
}

}  // namespace

bool Fits(const PlanSet& plans, const TierBytes& capacity) {
  return Fits(plans.arena_bytes, capacity);
}

absl::StatusOr<double> SecondsOfOffload(const Model& model, const PlanOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(const Candidate candidate, Consider(model, options, options.offload));
  return candidate.seconds;
}

absl::StatusOr<bool> SeemsToFit(const Model& model, const PlanOptions& options,
                                const TierBytes& capacity) {
  TESSERA_ASSIGN_OR_RETURN(const Candidate candidate, Consider(model, options, options.offload));
  if (!Fits(candidate.held, capacity)) return false;
  TESSERA_ASSIGN_OR_RETURN(const TierBytes bytes,
                           NeededBytes(model, options, options.offload, capacity));
  return Fits(bytes, capacity);
}

absl::StatusOr<Offload> ChooseOffload(const Model& model, const PlanOptions& options,
                                      const Freedom& freedom, const TierBytes& capacity) {
  std::vector<Candidate> candidates;
  for (const Offload& offload : Placements(options.offload, freedom, capacity[Tier::kNvme] > 0)) {
    TESSERA_ASSIGN_OR_RETURN(candidates.emplace_back(), Consider(model, options, offload));
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  std::vector<unsigned> too_few;  // categories that leave too much on the device
  for (const Candidate& candidate : candidates) {
    Offload chosen = candidate.offload;
    const unsigned leaving = Leaving(chosen);
    const bool hopeless = std::any_of(too_few.begin(), too_few.end(), [&](unsigned failed) {
      return (leaving | failed) == failed;
    });
    if (hopeless || !Fits(candidate.held, capacity)) continue;
    TESSERA_ASSIGN_OR_RETURN(const TierBytes bytes, NeededBytes(model, options, chosen, capacity));
    if (bytes[Tier::kDevice] > capacity[Tier::kDevice]) too_few.push_back(leaving);
    if (!Fits(bytes, capacity)) continue;
    if (!freedom.optimizer || chosen.optimizer.tier == Tier::kDevice) {
      TESSERA_ASSIGN_OR_RETURN(const TierBytes exact, PlannedBytes(model, options, chosen));
      if (Fits(exact, capacity)) return chosen;
      continue;
    }
    constexpr int kParts = 16;
    int too_little = 0;
    int enough = kParts;
    while (enough - too_little > 1) {
      const int parts = (too_little + enough) / 2;
      Offload less = chosen;
      less.optimizer.fraction = static_cast<double>(parts) / kParts;
      TESSERA_ASSIGN_OR_RETURN(const TierBytes less_bytes,
                               NeededBytes(model, options, less, capacity));
      (Fits(less_bytes, capacity) ? enough : too_little) = parts;
    }
    // An estimate may be a little off: what is chosen does fit.
    for (; enough <= kParts; ++enough) {
      chosen.optimizer.fraction = static_cast<double>(enough) / kParts;
      TESSERA_ASSIGN_OR_RETURN(const TierBytes exact, PlannedBytes(model, options, chosen));
      if (Fits(exact, capacity)) return chosen;
    }
  }
  return absl::ResourceExhaustedError("no placement of the run's bytes fits its tiers");
}

}  // namespace tessera
