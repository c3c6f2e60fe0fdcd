#include "core/world.h"

#include "core/mpi_communicator.h"
#include "core/process_communicator.h"
#include "core/single_communicator.h"

namespace tessera {

bool StartedAsRank() { return ProcessRankOfEnvironment() || StartedByMpi(); }

absl::StatusOr<std::unique_ptr<Communicator>> JoinWorld() {
  if (const auto rank = ProcessRankOfEnvironment()) return JoinProcessWorld(*rank);
  if (StartedByMpi()) return JoinMpiWorld();
  return std::make_unique<SingleCommunicator>();
}

}  // namespace tessera
