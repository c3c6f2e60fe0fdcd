#ifndef TESSERA_CORE_GATHER_TEXT_H_
#define TESSERA_CORE_GATHER_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/communicator.h"

namespace tessera {

// Every rank's text, in order of rank, on every rank. Each sends as much as the longest
// has. The errors of `communicator`.
absl::StatusOr<std::vector<std::string>> GatherText(const std::string& own,
                                                    Communicator& communicator);

}  // namespace tessera

#endif  // TESSERA_CORE_GATHER_TEXT_H_
