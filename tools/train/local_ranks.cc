#include "tools/train/local_ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/process_communicator.h"
#include "core/status.h"

namespace tessera {

int RanksHere() {
  if (const auto rank = ProcessRankOfEnvironment()) return rank->size;
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_TASKS_PER_NODE"}) {
    const char* const text = std::getenv(name);
    // Slurm's is a list over the nodes, such as "4(x3),2": the first is the most.
    const int ranks = text == nullptr ? 0 : static_cast<int>(std::strtol(text, nullptr, 10));
    if (ranks >= 1) return ranks;
  }
  return 1;
}

int LocalRank() {
  if (const auto rank = ProcessRankOfEnvironment()) return rank->rank;
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    const char* const text = std::getenv(name);
    if (text != nullptr) return static_cast<int>(std::strtol(text, nullptr, 10));
  }
  return 0;
}

int CoresPerRank() {
  const int machine = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  cpu_set_t bound;
  const int usable = sched_getaffinity(0, sizeof(bound), &bound) == 0 ? CPU_COUNT(&bound) : machine;
  return std::max(1, std::min(usable, machine / RanksHere()));
}

absl::StatusOr<TierBytes> LeastOf(const TierBytes& own, Communicator& communicator) {
  std::vector<TierBytes> all(communicator.size());
  TESSERA_RETURN_IF_ERROR(communicator.AllGather(reinterpret_cast<const std::byte*>(&own),
                                                 reinterpret_cast<std::byte*>(all.data()),
                                                 sizeof(own)));
  TierBytes least = own;
  for (const TierBytes& bytes : all) {
    for (const Tier tier : kTiers) least[tier] = std::min(least[tier], bytes[tier]);
  }
  return least;
}

}  // namespace tessera
