#ifndef TESSERA_TOOLS_BENCH_BENCH_PARTS_H_
#define TESSERA_TOOLS_BENCH_BENCH_PARTS_H_

#include "absl/status/status.h"
#include "core/communicator.h"

namespace tessera {

// Each prints what it measured, as ratios with the figures behind them.

// A training step of GPT-2 124M, 4 x 256 tokens, bf16, on one rank of all cores,
// against the matrix products alone.
absl::Status BenchStep();

// AdamW in bf16, 28 bytes per parameter, against the STREAM triad.
absl::Status BenchAdamW();

// A step at stage 3 against one at stage 0, and a gather against a copy of memory;
// as one rank of a world, of which the first prints.
absl::Status BenchRanks(Communicator& communicator);

// Building and verifying the plan of a 96-layer, 175B-parameter GPT on 1,024 ranks.
absl::Status BenchPlan();

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_BENCH_PARTS_H_
