#ifndef TESSERA_CORE_PROCESS_COMMUNICATOR_H_
#define TESSERA_CORE_PROCESS_COMMUNICATOR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/communicator.h"

namespace tessera {

// A rank of a world whose ranks are processes of this machine. They share memory
// through a descriptor that each has got from the process that started it, so
// that nothing is left of it when they have ended, however that was.
struct ProcessRank {
  int world = -1;  // the descriptor
  int rank = 0;
  int size = 1;
};

// Makes the memory of a world of `size` ranks, and returns its descriptor, which is
// closed on exec. Unavailable when the system refuses.
absl::StatusOr<int> MakeProcessWorld(int size);

// How a process that has been forked becomes the program of a rank: NAME=value for
// its environment, once `rank.world` stays open on exec.
std::vector<std::string> ProcessRankVariables(const ProcessRank& rank);

// What those variables say to this process; nothing without them.
std::optional<ProcessRank> ProcessRankOfEnvironment();

// Joins the world; at most once in the life of a process. Blocks until all ranks
// have joined. The descriptor must stay open, without a second one for it in this
// process, and is closed on exec from now on.
//
// Waits sleep in the kernel. Different calls by two ranks are Internal, at every
// rank. When a rank's process has ended, whatever waits for it is Unavailable("rank
// R has ended") within half a second; so is Check.
//
// Destroying the communicator waits for the other ranks to do so too, unless the
// world is broken.
absl::StatusOr<std::unique_ptr<Communicator>> JoinProcessWorld(const ProcessRank& rank);

}  // namespace tessera

#endif  // TESSERA_CORE_PROCESS_COMMUNICATOR_H_
