#include "sharding/partition.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "sharding/interval_map.h"

namespace tessera {
namespace {

UnitSpec MakeUnit(const std::vector<Shape>& shapes) {
  UnitSpec unit;
  unit.name = "unit";
  for (const Shape& shape : shapes) {
    ParameterSpec& parameter = unit.parameters.emplace_back();
    parameter.name = absl::StrCat("p", unit.parameters.size() - 1);
    parameter.shape = shape;
  }
  return unit;
}

TEST(PartitionUnit, LaysParametersOutInOrder) {
  const UnitPartition p = *PartitionUnit(MakeUnit({{3, 5}, {0}, {1}, {}, {2, 4}}), 2);
  EXPECT_EQ(p.offsets, (std::vector<int64_t>{0, 32, 32, 64, 96}));
  EXPECT_EQ(p.sizes, (std::vector<int64_t>{15, 0, 1, 1, 8}));
  EXPECT_EQ(p.elements, 104);
  EXPECT_EQ(p.shard, kChunkElements);
  EXPECT_EQ(p.padded, 2 * kChunkElements);
}

TEST(PartitionUnit, EveryElementHasOneOwner) {
  for (int64_t size : {1, 15, 1023, 1024, 1025, 4096, 4097, 100000}) {
    for (int world : {1, 2, 3, 5, 8, 1000}) {
      const UnitPartition p = *PartitionUnit(MakeUnit({{size}}), world);
      EXPECT_EQ(p.elements, size);
      EXPECT_EQ(p.shard % kChunkElements, 0);
      EXPECT_EQ(p.padded, world * p.shard);
      EXPECT_GE(p.padded, size);
      // One chunk less per rank would not do.
      EXPECT_LT((p.shard - kChunkElements) * world, size);
    }
  }
}

TEST(PartitionUnit, LayoutIsTheSameInEveryWorld) {
  const UnitSpec unit = MakeUnit({{37, 24}, {1}, {15}});
  const UnitPartition alone = *PartitionUnit(unit, 1);
  for (int world : {2, 3, 5, 8, 64}) {
    const UnitPartition p = *PartitionUnit(unit, world);
    EXPECT_EQ(p.offsets, alone.offsets);
    EXPECT_EQ(p.elements, alone.elements);
  }
}

// Eight ranks share what fills two and a bit of the third: five get padding alone.
TEST(PartitionUnit, SomeRanksGetNothing) {
  const UnitPartition p = *PartitionUnit(MakeUnit({{2 * kChunkElements + 7}}), 8);
  EXPECT_EQ(p.shard, kChunkElements);
  EXPECT_EQ((p.elements + p.shard - 1) / p.shard, 3);
  const std::vector<ElementRange> padding = PaddingOf(p);
  ASSERT_EQ(padding.size(), 1u);
  EXPECT_EQ(padding[0].begin, 2 * kChunkElements + 7);
  EXPECT_EQ(padding[0].end, 8 * kChunkElements);
}

TEST(PartitionUnit, EmptyUnitsHaveNoShards) {
  for (const UnitSpec& unit : {MakeUnit({}), MakeUnit({{0, 4}}), MakeUnit({{0}, {3, 0}})}) {
    const UnitPartition p = *PartitionUnit(unit, 3);
    EXPECT_EQ(p.elements, 0);
    EXPECT_EQ(p.shard, 0);
    EXPECT_EQ(p.padded, 0);
    EXPECT_TRUE(PaddingOf(p).empty());
  }
}

TEST(PartitionUnit, RefusesWhatIsTooLarge) {
  const int64_t most = int64_t{1} << 40;
  EXPECT_TRUE(PartitionUnit(MakeUnit({{most}}), 4).ok());
  EXPECT_TRUE(PartitionUnit(MakeUnit({{most, 0, most}}), 4).ok());
  for (const UnitSpec& unit :
       {MakeUnit({{8}, {most}}), MakeUnit({{8}, {most + 1}}), MakeUnit({{8}, {-1}}),
        MakeUnit({{8}, {most, most, most}}), MakeUnit({{8}, {int64_t{1} << 62, 4}})}) {
    const absl::Status status = PartitionUnit(unit, 4).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "parameter p1 of unit unit has a negative extent or makes the unit larger than 2^40 "
              "elements; split the unit or correct the shape");
  }
}

TEST(PaddingOf, IsWhatNoParameterCovers) {
  for (const std::vector<Shape>& shapes :
       {std::vector<Shape>{{3, 5}, {0}, {1}, {8}}, std::vector<Shape>{{0}, {15}, {0}},
        std::vector<Shape>{{1024}}, std::vector<Shape>{{5}, {5}, {5}, {5}}}) {
    for (int world : {1, 3}) {
      const UnitPartition p = *PartitionUnit(MakeUnit(shapes), world);
      std::vector<int> covered(p.padded, 0);
      for (size_t i = 0; i < p.sizes.size(); ++i) {
        for (int64_t e = 0; e < p.sizes[i]; ++e) ++covered[p.offsets[i] + e];
      }
      for (const ElementRange& range : PaddingOf(p)) {
        EXPECT_LT(range.begin, range.end);
        for (int64_t e = range.begin; e < range.end; ++e) ++covered[e];
      }
      EXPECT_EQ(covered, std::vector<int>(p.padded, 1));
    }
  }
}

TEST(IntervalMap, IsAnArrayOfBytes) {
  constexpr int kBytes = 50;
  std::minstd_rand lot(7);
  IntervalMap<int> map(-1);
  std::vector<int> bytes(kBytes, -1);
  for (int round = 0; round < 2000; ++round) {
    const int64_t begin = static_cast<int64_t>(lot() % kBytes);
    const int64_t end = static_cast<int64_t>(lot() % (kBytes + 1));
    const int value = static_cast<int>(lot() % 3);
    if (round % 2 == 0) {
      map.Assign(begin, end, value);
      for (int64_t b = begin; b < end; ++b) bytes[b] = value;
    } else {
      map.Update(begin, end, [&](int& run) { run = 2 * value - run; });
      for (int64_t b = begin; b < end; ++b) bytes[b] = 2 * value - bytes[b];
    }
    const int64_t from = static_cast<int64_t>(lot() % kBytes);
    int64_t reached = from;
    map.ForEach(from, kBytes, [&](int64_t run_begin, int64_t run_end, int found) {
      EXPECT_EQ(run_begin, reached);
      for (int64_t b = run_begin; b < run_end; ++b) EXPECT_EQ(found, bytes[b]);
      reached = run_end;
    });
    EXPECT_EQ(reached, kBytes);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace tessera
