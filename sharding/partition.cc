#include "sharding/partition.h"

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 40;

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The product of the extents, or -1 where it is negative or too large.
int64_t CheckedElements(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (extent < 0) return -1;
    if (extent != 0 && elements > kMostElements / extent) return -1;
    elements *= extent;
  }
  return elements;
}

}  // namespace

absl::StatusOr<UnitPartition> PartitionUnit(const UnitSpec& unit, int world) {
  UnitPartition partition;
  for (const ParameterSpec& parameter : unit.parameters) {
    const int64_t size = CheckedElements(parameter.shape);
    const int64_t offset = RoundUp(partition.elements, kParameterAlignment);
    if (size < 0 || offset > kMostElements - size) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", parameter.name, " of unit ", unit.name,
                       " has a negative extent or makes the unit larger than 2^40 elements; split "
                       "the unit or correct the shape"));
    }
    partition.offsets.push_back(offset);
    partition.sizes.push_back(size);
    partition.elements = offset + size;
  }
  const int64_t per_rank = (partition.elements + world - 1) / world;
  partition.shard = RoundUp(per_rank, kChunkElements);
  partition.padded = partition.shard * world;
  return partition;
}

std::vector<ElementRange> PaddingOf(const UnitPartition& partition) {
  std::vector<ElementRange> padding;
  int64_t covered = 0;
  const auto add = [&](int64_t begin, int64_t end) {
    if (end > begin) padding.push_back({begin, end});
  };
  for (size_t i = 0; i < partition.offsets.size(); ++i) {
    add(covered, partition.offsets[i]);
    covered = partition.offsets[i] + partition.sizes[i];
  }
  add(covered, partition.padded);
  return padding;
}

}  // namespace tessera
