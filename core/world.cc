#include "core/world.h"

#include "core/mpi_communicator.h"
#include "core/single_communicator.h"

namespace tessera {

bool StartedAsRank() { return StartedByMpi(); }

absl::StatusOr<std::unique_ptr<Communicator>> JoinWorld() {
  if (StartedByMpi()) return JoinMpiWorld();
  return std::make_unique<SingleCommunicator>();
}

}  // namespace tessera
