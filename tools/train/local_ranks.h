#ifndef TESSERA_TOOLS_TRAIN_LOCAL_RANKS_H_
#define TESSERA_TOOLS_TRAIN_LOCAL_RANKS_H_

#include "absl/status/statusor.h"
#include "core/communicator.h"
#include "offload/tier.h"

namespace tessera {

// How many ranks of this world share this machine, as the launcher (mpirun,
// srun or ours) says; 1 without one.
int RanksHere();

// Which of them this one is, from 0.
int LocalRank();

// The cores that this rank may use for itself: those it is bound to, or, where it
// may use the whole machine like its neighbours, its share of them. At least 1.
int CoresPerRank();

// The least of each tier over the ranks, which plan with the same bytes. Every rank of
// `communicator` calls this.
absl::StatusOr<TierBytes> LeastOf(const TierBytes& own, Communicator& communicator);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_LOCAL_RANKS_H_
