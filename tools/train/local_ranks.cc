#include "tools/train/local_ranks.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace tessera {

int RanksHere() {
  // Slurm's may be a list such as "2(x3),1": its first number is close enough.
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS_PER_NODE"}) {
    const char* const text = std::getenv(name);
    int ranks = 0;
    if (text != nullptr && absl::SimpleAtoi(text, &ranks) && ranks >= 1) return ranks;
  }
  return 1;
}

int CoresPerRank() {
  const int machine = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  cpu_set_t bound;
  const int usable = sched_getaffinity(0, sizeof(bound), &bound) == 0 ? CPU_COUNT(&bound) : machine;
  return std::max(1, std::min(usable, machine / RanksHere()));
}

}  // namespace tessera
