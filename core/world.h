#ifndef TESSERA_CORE_WORLD_H_
#define TESSERA_CORE_WORLD_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/communicator.h"

namespace tessera {

// Whether this process was started as a rank: by mpirun or srun, or by a command
// that starts ranks itself.
bool StartedAsRank();

// Joins the world that this process was started in, or is alone in one of its own;
// at most once in its life. Blocks until all ranks have joined. For the rest see
// mpi_communicator.h: leave a broken world by ending the process.
absl::StatusOr<std::unique_ptr<Communicator>> JoinWorld();

}  // namespace tessera

#endif  // TESSERA_CORE_WORLD_H_
