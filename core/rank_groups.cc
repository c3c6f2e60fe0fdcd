#include "core/rank_groups.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "core/status.h"

namespace tessera {

RankGroups GroupByName(absl::Span<const std::string> names) {
  RankGroups groups;
  for (size_t rank = 0; rank < names.size(); ++rank) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& other) {
      return names[other[0]] == names[rank];
    });
    if (group == groups.end()) group = groups.insert(group, std::vector<int>());
    group->push_back(static_cast<int>(rank));
  }
  return groups;
}

std::string NodeName() {
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  // Hosts may have the same name, as containers do.
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  return absl::StrCat(host.data(), " ", boot);
}

absl::StatusOr<RankGroups> GroupByNode(const std::string& node, Communicator& communicator) {
  // Text of a fixed length, which ranks can exchange.
  using Name = std::array<char, 320>;
  Name own = {};
  node.copy(own.data(), own.size() - 1);
  std::vector<Name> all(communicator.size());
  TESSERA_RETURN_IF_ERROR(communicator.AllGather(reinterpret_cast<const std::byte*>(own.data()),
                                                 reinterpret_cast<std::byte*>(all.data()),
                                                 sizeof(Name)));
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Name& name : all) names.emplace_back(name.data());
  return GroupByName(names);
}

}  // namespace tessera
