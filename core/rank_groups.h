#ifndef TESSERA_CORE_RANK_GROUPS_H_
#define TESSERA_CORE_RANK_GROUPS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/communicator.h"

namespace tessera {

// The ranks of a world in groups, each rank in one: a group's ranks ascend, and so do
// the groups' first ranks.
using RankGroups = std::vector<std::vector<int>>;

// Ranks whose `names` (by rank) are equal are a group.
RankGroups GroupByName(absl::Span<const std::string> names);

// The machine that this process runs on, as long as it is up.
std::string NodeName();

// The groups of ranks that share a node. Every rank calls this, with its own
// NodeName, and gets the same. Errors are the communicator's.
absl::StatusOr<RankGroups> GroupByNode(const std::string& node, Communicator& communicator);

}  // namespace tessera

#endif  // TESSERA_CORE_RANK_GROUPS_H_
