#include <cstdlib>

#include "core/mpi_communicator.h"

namespace tessera {

bool BuiltWithMpi() { return false; }

bool StartedByMpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const char* const text = std::getenv(name);
    if (text != nullptr && std::atoi(text) > 1) return true;
  }
  return false;
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinMpiWorld() {
  return absl::UnimplementedError(
      "mpirun or srun has started several ranks, but this program was built without MPI; start "
      "one with --ranks, or build it with MPI");
}

}  // namespace tessera
