#ifndef TESSERA_TESTS_SUPPORT_CUDA_WORLD_H_
#define TESSERA_TESTS_SUPPORT_CUDA_WORLD_H_

#include "tests/support/training.h"

namespace tessera::testing {

// For RunOptions::make_device: the GPU of a rank's number, with NCCL.
absl::StatusOr<RankDevice> MakeCudaRank(Communicator& communicator);

// InThreadWorld for ranks that use CUDA. Where that is simulated, they take turns in
// an order drawn from the seed.
void InCudaWorld(int world, const RankFunction& run);

// The largest world that there are GPUs for; 0 if none.
int LargestCudaWorld();

// Whether GPUs are simulated (docs/cuda_on_cpu.md), which reports ranks that call
// different collectives.
bool CudaIsSimulated();

// Whether a simulated NCCL tells the others that a rank has aborted, or leaves them
// waiting, as it may; true at first.
void SetNcclAbortReachesPeers(bool reaches);

// Has what the GPUs do in which order be drawn anew, where they are simulated.
void SetCudaSeed(uint64_t seed);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SUPPORT_CUDA_WORLD_H_
