#ifndef TESSERA_CORE_NCCL_COLLECTIVES_H_
#define TESSERA_CORE_NCCL_COLLECTIVES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/collectives.h"
#include "core/communicator.h"
#include "core/cuda_device.h"
#include "core/rank_groups.h"

namespace tessera {

// Compares where the ranks' GPUs are (CudaDevice::bus_id). Every rank calls this.
// InvalidArgument, naming them, when two ranks have the same one.
absl::Status CheckOneRankPerGpu(const std::string& bus_id, Communicator& control);

// Collectives on the GPUs' memory through NCCL; a world of one rank needs none of it.
// What the others must know first (NCCL's id, which GPU a rank has) travels over
// `control`, which connects the same ranks and outlives the result, as `device` does.
// Every rank calls this, with its own device.
//
// When NCCL reports an error, or another rank calls control.Abort, pending
// collectives are aborted and the device fails with the cause, within a second.
//
// The errors of CheckOneRankPerGpu; Unavailable with NCCL's words.
absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclCollectives(CudaDevice& device,
                                                                 Communicator& control);

// The same among the ranks of a group alone: this rank's of `groups`, which has every
// rank of `control` and is the same on all of them. In the result a rank's number is
// its place in its group.
absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclGroupCollectives(CudaDevice& device,
                                                                      Communicator& control,
                                                                      const RankGroups& groups);

}  // namespace tessera

#endif  // TESSERA_CORE_NCCL_COLLECTIVES_H_
