#ifndef TESSERA_SHARDING_PARTITION_H_
#define TESSERA_SHARDING_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/module.h"

namespace tessera {

// The norm is summed over chunks of this many elements of a unit (docs/design.md),
// and a chunk never straddles two shards.
inline constexpr int64_t kChunkElements = 1024;

// Where the optimizer's state is cut in parts and tiles: a multiple of a chunk, and of
// what the NVMe tier moves, for elements of two bytes or more.
inline constexpr int64_t kTileAlignment = 2 * kChunkElements;

// Parameters start on multiples of this many elements: 64 bytes in bf16, without
// which a matrix product on them takes nearly twice as long.
inline constexpr int64_t kParameterAlignment = 32;

// How one unit's parameters lie in its flat buffer, and how that is cut into one
// equal shard per rank. All numbers are elements; the layout before the padding
// at the end is the same for every world.
struct UnitPartition {
  std::vector<int64_t> offsets;  // of each parameter
  std::vector<int64_t> sizes;    // of each parameter, without padding
  int64_t elements = 0;          // up to the end of the last parameter
  int64_t shard = 0;             // per rank; a multiple of kChunkElements; may be 0
  int64_t padded = 0;            // world * shard
};

// InvalidArgument if an extent is negative or the unit has more than 2^40 elements.
absl::StatusOr<UnitPartition> PartitionUnit(const UnitSpec& unit, int world);

// The parts of `partition` that no parameter covers, as [begin, end) in elements.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
};
std::vector<ElementRange> PaddingOf(const UnitPartition& partition);

}  // namespace tessera

#endif  // TESSERA_SHARDING_PARTITION_H_
