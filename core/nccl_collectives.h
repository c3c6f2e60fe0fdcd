#ifndef TESSERA_CORE_NCCL_COLLECTIVES_H_
#define TESSERA_CORE_NCCL_COLLECTIVES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/collectives.h"
#include "core/communicator.h"
#include "core/cuda_device.h"

namespace tessera {

// Collectives on the GPUs' memory through NCCL; a world of one rank needs none of it.
// What the others must know first (NCCL's id, which GPU a rank has) travels over
// `control`, which connects the same ranks and outlives the result, as `device` does.
// Every rank calls this, with its own device.
//
// When NCCL reports an error, or another rank calls control.Abort, pending
// collectives are aborted and the device fails with the cause, within a second.
//
// InvalidArgument when two ranks have the same GPU; Unavailable with NCCL's words.
absl::StatusOr<std::unique_ptr<Collectives>> MakeNcclCollectives(CudaDevice& device,
                                                                 Communicator& control);

}  // namespace tessera

#endif  // TESSERA_CORE_NCCL_COLLECTIVES_H_
