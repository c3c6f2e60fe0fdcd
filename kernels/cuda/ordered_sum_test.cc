#include "kernels/ordered_sum.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"

namespace tessera::kernels {
namespace {

class CudaOrderedSumTest : public CudaTest {};

std::vector<Array> Leaves(DType dtype, int64_t elements, int count) {
  std::vector<Array> leaves;
  leaves.reserve(count);
  for (int i = 0; i < count; ++i) {
    leaves.push_back(RandomArray(dtype, {elements}, i, std::exp2(static_cast<double>(i * 7 % 12))));
  }
  return leaves;
}

// The operands of InSteps: the leaves, a total, and a slot for every level.
struct Operands {
  Operands(std::vector<Array> all_leaves, DType total_dtype)
      : leaves(std::move(all_leaves)), total(total_dtype, leaves[0].tensor().shape) {
    for (int level = 0; level <= 10; ++level) {
      slots.emplace_back(DType::kFloat32, leaves[0].tensor().shape);
    }
  }
  std::vector<const Array*> list() const {
    std::vector<const Array*> list;
    for (const Array& leaf : leaves) list.push_back(&leaf);
    list.push_back(&total);
    for (const Array& slot : slots) list.push_back(&slot);
    return list;
  }

  std::vector<Array> leaves;
  Array total;
  std::vector<Array> slots;
};

// Inserts the leaves `step` at a time, and finishes with the last of them.
Kernel InSteps(int64_t leaves, int64_t group, int64_t step) {
  return [=](Lane& lane, const std::vector<Tensor>& t) {
    const auto slots_for = [&](int64_t count) {
      std::vector<Slot> list;
      for (int level : OccupiedSlots(count, group)) list.push_back({level, t[leaves + 2 + level]});
      return list;
    };
    for (int64_t first = 0; first < leaves; first += step) {
      const int64_t last = std::min(leaves, first + step);
      const std::vector<Slot> before = slots_for(first);
      const std::vector<Slot> after = last == leaves ? std::vector<Slot>{} : slots_for(last);
      AccumulateArguments arguments;
      arguments.leaves_before = first;
      arguments.group = group;
      arguments.pieces = absl::MakeSpan(&t[first], static_cast<size_t>(last - first));
      arguments.slots_before = before;
      arguments.slots_after = after;
      if (last == leaves) arguments.total = &t[leaves];
      TESSERA_RETURN_IF_ERROR(AccumulateOrdered(lane, arguments));
    }
    return absl::OkStatus();
  };
}

TEST_F(CudaOrderedSumTest, SameBitsAsTheCpuHoweverItIsCut) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int count : {1, 3, 8, 13}) {
      const Operands operands(Leaves(dtype, 131, count), dtype);
      for (int64_t group : {1, 2, 3, 20}) {
        for (int64_t step : {1, 5, 13}) {
          if (kSanitized && step == 1) continue;
          SCOPED_TRACE(testing::Message()
                       << count << " leaves, group " << group << ", step " << step);
          ExpectSameBitsAsCpu(operands.list(), InSteps(count, group, step));
        }
      }
    }
  }
}

TEST_F(CudaOrderedSumTest, HardSizes) {
  for (int64_t elements : {0, 1, 15, 511, 513, 50257}) {
    const Operands operands(Leaves(DType::kBFloat16, elements, 7), DType::kFloat32);
    ExpectSameBitsAsCpu(operands.list(), InSteps(7, 2, 3));
  }
}

TEST_F(CudaOrderedSumTest, HundredsOfPieces) {
  constexpr int kCount = kSanitized ? 200 : 700;
  const Operands operands(Leaves(DType::kBFloat16, 37, kCount), DType::kBFloat16);
  ExpectSameBitsAsCpu(operands.list(), InSteps(kCount, 1, kCount));
  ExpectSameBitsAsCpu(operands.list(), InSteps(kCount, 3, kCount / 2));
}

TEST_F(CudaOrderedSumTest, TheTotalMayBeAPiece) {
  const std::vector<Array> leaves = Leaves(DType::kFloat32, 300, 3);
  for (size_t target = 0; target < 3; ++target) {
    ExpectSameBitsAsCpu({&leaves[0], &leaves[1], &leaves[2]}, [=](Lane& lane, const auto& t) {
      AccumulateArguments arguments;
      arguments.pieces = t;
      arguments.total = &t[target];
      return AccumulateOrdered(lane, arguments);
    });
  }
}

// A finish without new pieces, into one of the slots.
TEST_F(CudaOrderedSumTest, FinishesWhatIsPending) {
  const Operands operands(Leaves(DType::kFloat32, 300, 7), DType::kFloat32);
  ExpectSameBitsAsCpu(operands.list(), [](Lane& lane, const auto& t) {
    std::vector<Slot> slots;
    for (int level : OccupiedSlots(7, 1)) slots.push_back({level, t[9 + level]});
    AccumulateArguments insert;
    insert.pieces = absl::MakeSpan(&t[0], 7);
    insert.slots_after = slots;
    TESSERA_RETURN_IF_ERROR(AccumulateOrdered(lane, insert));
    AccumulateArguments finish;
    finish.leaves_before = 7;
    finish.slots_before = slots;
    finish.total = &t[10];
    return AccumulateOrdered(lane, finish);
  });
}

TEST_F(CudaOrderedSumTest, RefusesMorePiecesThanALaunchCanName) {
  const DeviceArray leaf(DType::kFloat32, {1});
  const std::vector<Tensor> pieces(2049, leaf.tensor());
  AccumulateArguments arguments;
  arguments.pieces = pieces;
  arguments.total = &leaf.tensor();
  EXPECT_EQ(AccumulateOrdered(lane(), arguments).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tessera::kernels
