#ifndef TESSERA_TESTS_CUDA_ON_CPU_NCCL_COMMUNICATOR_H_
#define TESSERA_TESTS_CUDA_ON_CPU_NCCL_COMMUNICATOR_H_

#include <nccl.h>

#include <memory>

#include "tests/cuda_on_cpu/nccl/clique.h"

struct ncclComm {
  std::shared_ptr<tessera::cuda_on_cpu::Clique> clique;
  int rank;
  int device;
  // The point in a stream after its last collective.
  tessera::cuda_on_cpu::Position last = {};
};

namespace tessera::cuda_on_cpu {

// Between ncclGroupStart and ncclGroupEnd of the calling thread.
bool InGroup();
// An initialization that waits for the end of the group.
void DeferJoin(ncclComm* communicator);
// Waits until all ranks of each have joined.
ncclResult_t FinishJoins(const std::vector<ncclComm*>& communicators);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_NCCL_COMMUNICATOR_H_
