#ifndef TESSERA_CORE_MPI_COMMUNICATOR_H_
#define TESSERA_CORE_MPI_COMMUNICATOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/communicator.h"

namespace tessera {

// Without MPI (--//tools/build:mpi=false) JoinMpiWorld is Unimplemented.
bool BuiltWithMpi();

// Whether mpirun, or srun with PMIx or PMI-2, started this process; without MPI,
// only where that made it one of several.
bool StartedByMpi();

// Joins the world that this process was started in; at most once in its life.
// Blocks until all ranks have joined.
//
// A call that waits for peers sleeps between looks, since ranks may share cores
// with each other's compute threads.
//
// Destroying the communicator leaves MPI, which waits for the other ranks. After
// an abort or an error it does nothing instead, because nobody can leave a broken
// world in good order: the process should just exit, with a status other than 0,
// at which mpirun ends what is left of the world. Until then the memory of a call
// that failed may still be written to.
absl::StatusOr<std::unique_ptr<Communicator>> JoinMpiWorld();

}  // namespace tessera

#endif  // TESSERA_CORE_MPI_COMMUNICATOR_H_
