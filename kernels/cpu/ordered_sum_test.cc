#include "kernels/ordered_sum.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

// The canonical sum as its definition has it, for one element.
class CarryCounter {
 public:
  void Insert(float value) {
    int level = 0;
    while (!pending_.empty() && pending_.back().first == level) {
      value = pending_.back().second + value;
      pending_.pop_back();
      ++level;
    }
    pending_.emplace_back(level, value);
  }
  float Finish() const {
    float total = pending_.back().second;
    for (size_t i = pending_.size() - 1; i-- > 0;) total = pending_[i].second + total;
    return total;
  }
  std::vector<int> Levels() const {
    std::vector<int> levels;
    for (const auto& [level, value] : pending_) levels.push_back(level);
    return levels;
  }

 private:
  std::vector<std::pair<int, float>> pending_;
};

float Canonical(const std::vector<float>& leaves, size_t group) {
  CarryCounter counter;
  for (size_t start = 0; start < leaves.size(); start += group) {
    float total = leaves[start];
    for (size_t i = start + 1; i < std::min(start + group, leaves.size()); ++i) total += leaves[i];
    counter.Insert(total);
  }
  return counter.Finish();
}

TEST(OccupiedSlots, FollowsTheCounter) {
  for (int64_t group : {1, 2, 3, 4, 7}) {
    CarryCounter counter;
    for (int64_t leaves = 0; leaves < 100; ++leaves) {
      std::vector<int> expected = counter.Levels();
      if (leaves % group != 0) expected.push_back(kOpenGroup);
      EXPECT_EQ(OccupiedSlots(leaves, group), expected) << leaves << " leaves, group " << group;
      if ((leaves + 1) % group == 0) counter.Insert(1);
    }
  }
}

constexpr int kLeaves = 13;

std::vector<Array> Leaves(DType dtype, int64_t elements, int count) {
  std::vector<Array> leaves;
  leaves.reserve(count);
  for (int i = 0; i < count; ++i) {
    leaves.push_back(RandomArray(dtype, {elements}, i, std::exp2(static_cast<double>(i * 7 % 12))));
  }
  return leaves;
}

std::vector<double> CanonicalOf(const std::vector<Array>& leaves, int64_t group, DType dtype) {
  std::vector<std::vector<double>> values;
  values.reserve(leaves.size());
  for (const Array& leaf : leaves) values.push_back(leaf.values());
  std::vector<double> sums(values[0].size());
  for (size_t e = 0; e < sums.size(); ++e) {
    std::vector<float> column;
    column.reserve(values.size());
    for (const auto& leaf : values) column.push_back(static_cast<float>(leaf[e]));
    sums[e] = Canonical(column, group);
  }
  return Array(dtype, {static_cast<int64_t>(sums.size())}, sums).values();
}

// Inserts the leaves `step` at a time, and finishes with the last of them.
Array RunInSteps(Lane& lane, const std::vector<Array>& leaves, int64_t group, size_t step,
                 DType total_dtype) {
  const int64_t elements = leaves[0].tensor().elements();
  Array total(total_dtype, {elements});
  std::map<int, Array> slots;
  for (size_t first = 0; first < leaves.size(); first += step) {
    const size_t last = std::min(leaves.size(), first + step);
    std::vector<Tensor> pieces;
    for (size_t i = first; i < last; ++i) pieces.push_back(leaves[i].tensor());
    const auto slots_for = [&](size_t count) {
      std::vector<Slot> list;
      for (int level : OccupiedSlots(static_cast<int64_t>(count), group)) {
        const auto slot = slots.try_emplace(level, DType::kFloat32, Shape{elements}).first;
        list.push_back({level, slot->second.tensor()});
      }
      return list;
    };
    AccumulateArguments arguments;
    arguments.leaves_before = static_cast<int64_t>(first);
    arguments.group = group;
    arguments.pieces = pieces;
    const std::vector<Slot> before = slots_for(first);
    const std::vector<Slot> after = last == leaves.size() ? std::vector<Slot>{} : slots_for(last);
    arguments.slots_before = before;
    arguments.slots_after = after;
    if (last == leaves.size()) arguments.total = &total.tensor();
    EXPECT_TRUE(AccumulateOrdered(lane, arguments).ok());
  }
  return total;
}

TEST(AccumulateOrdered, IsTheCanonicalSumHoweverItIsCut) {
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int count : {1, 2, 3, 6, 8, kLeaves}) {
      const std::vector<Array> leaves = Leaves(dtype, 1025, count);
      for (int64_t group : {1, 2, 3, 4, 20}) {
        const std::vector<double> expected = CanonicalOf(leaves, group, dtype);
        for (size_t step : {1, 2, 3, 5, kLeaves}) {
          const Array total = RunInSteps(lane, leaves, group, step, dtype);
          EXPECT_EQ(total.values(), expected)
              << NameOf(dtype) << " " << count << " leaves, group " << group << ", step " << step;
        }
      }
    }
  }
}

TEST(AccumulateOrdered, HardSizes) {
  InlineLane lane(2);
  for (int64_t elements : {0, 1, 15, 511, 512, 513, 100003}) {
    const std::vector<Array> leaves = Leaves(DType::kBFloat16, elements, 7);
    EXPECT_EQ(RunInSteps(lane, leaves, 2, 3, DType::kFloat32).values(),
              CanonicalOf(leaves, 2, DType::kFloat32));
  }
}

TEST(AccumulateOrdered, TheTotalMayBeAPiece) {
  InlineLane lane(2);
  const std::vector<double> expected =
      CanonicalOf(Leaves(DType::kFloat32, 3000, 3), 1, DType::kFloat32);
  for (int target = 0; target < 3; ++target) {
    const std::vector<Array> leaves = Leaves(DType::kFloat32, 3000, 3);
    std::vector<Tensor> pieces;
    pieces.reserve(leaves.size());
    for (const Array& leaf : leaves) pieces.push_back(leaf.tensor());
    AccumulateArguments arguments;
    arguments.pieces = pieces;
    arguments.total = &pieces[target];
    ASSERT_TRUE(AccumulateOrdered(lane, arguments).ok());
    EXPECT_EQ(leaves[target].values(), expected);
  }
}

// A finish without new pieces: what is pending merges from the right.
TEST(AccumulateOrdered, FinishesWhatIsPending) {
  InlineLane lane(1);
  const std::vector<Array> leaves = Leaves(DType::kFloat32, 600, 7);
  std::vector<Tensor> pieces;
  pieces.reserve(leaves.size());
  for (const Array& leaf : leaves) pieces.push_back(leaf.tensor());
  std::vector<Array> arrays;
  std::vector<Slot> slots;
  for (int level : OccupiedSlots(7, 1)) {
    arrays.emplace_back(DType::kFloat32, Shape{600});
    slots.push_back({level, arrays.back().tensor()});
  }
  AccumulateArguments insert;
  insert.pieces = pieces;
  insert.slots_after = slots;
  ASSERT_TRUE(AccumulateOrdered(lane, insert).ok());
  const Array total(DType::kFloat32, {600});
  AccumulateArguments finish;
  finish.leaves_before = 7;
  finish.slots_before = slots;
  finish.total = &total.tensor();
  ASSERT_TRUE(AccumulateOrdered(lane, finish).ok());
  EXPECT_EQ(total.values(), CanonicalOf(leaves, 1, DType::kFloat32));
}

TEST(AccumulateOrdered, ThreadsDoNotMatter) {
  const std::vector<Array> leaves = Leaves(DType::kBFloat16, 100003, 7);
  ExpectThreadIndependent([&](Lane& lane) {
    std::vector<Array> outputs;
    outputs.push_back(RunInSteps(lane, leaves, 1, 2, DType::kFloat32));
    return outputs;
  });
}

}  // namespace
}  // namespace tessera::kernels
