#ifndef TESSERA_TOOLS_BENCH_CAPACITY_H_
#define TESSERA_TOOLS_BENCH_CAPACITY_H_

#include "absl/status/status.h"

namespace tessera {

// Prints, as Markdown, the largest GPT that the planner fits on devices of 8 to 141 GB
// with 256 GB of host memory and 4 TB of NVMe for each: for one rank and for eight at
// every stage, and for what lives on the device, the host or NVMe, with what it takes.
absl::Status PrintCapacities();

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_CAPACITY_H_
