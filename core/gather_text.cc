#include "core/gather_text.h"

#include <algorithm>

#include "core/status.h"

namespace tessera {

absl::StatusOr<std::vector<std::string>> GatherText(const std::string& own,
                                                    Communicator& communicator) {
  const auto size = static_cast<int64_t>(own.size());
  std::vector<int64_t> sizes(communicator.size());
  TESSERA_RETURN_IF_ERROR(communicator.AllGather(reinterpret_cast<const std::byte*>(&size),
                                                 reinterpret_cast<std::byte*>(sizes.data()),
                                                 sizeof(size)));
  const int64_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::string> texts(sizes.size());
  if (longest == 0) return texts;
  std::string padded = own;
  padded.resize(longest);
  std::string all(longest * communicator.size(), '\0');
  TESSERA_RETURN_IF_ERROR(communicator.AllGather(reinterpret_cast<const std::byte*>(padded.data()),
                                                 reinterpret_cast<std::byte*>(all.data()),
                                                 longest));
  for (size_t r = 0; r < texts.size(); ++r) texts[r] = all.substr(r * longest, sizes[r]);
  return texts;
}

}  // namespace tessera
