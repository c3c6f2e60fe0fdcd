#include "kernels/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/softmax_cross_entropy_reference.h"

namespace tessera::kernels {
namespace {

class CudaSoftmaxCrossEntropyTest : public CudaTest {};

// Operands are logits, targets, losses and, if there is a fourth, d_logits.
absl::Status Softmax(Lane& lane, const std::vector<Tensor>& t) {
  return SoftmaxCrossEntropy(lane, t[0], t[1], /*first_row=*/100, kSoftmaxScale, t[2].as<double>(),
                             t.size() > 3 ? &t[3] : nullptr);
}

TEST_F(CudaSoftmaxCrossEntropyTest, MatchesDoubles) {
  for (const auto& [rows, vocabulary] : {std::tuple<int64_t, int64_t>{1, 257},
                                         {1, 50257},
                                         {3, 50257},
                                         {2, 50304},
                                         {255, 5},
                                         {3, 1},
                                         {7, 4096}}) {
    if (kSanitized && rows * vocabulary > 50257) continue;  // which makes it slow
    SCOPED_TRACE(testing::Message() << rows << " rows of " << vocabulary);
    const Array logits = RandomArray(DType::kFloat32, {rows, vocabulary}, 1, 10);
    const Array targets = SoftmaxTargets(rows, vocabulary);
    const Array losses(DType::kFloat64, {rows});
    const SoftmaxReference expected = SoftmaxReferenceOf(logits.values(), targets.values());
    const std::vector<Array> evaluation = RunKernel(lane(), {&logits, &targets, &losses}, Softmax);
    ExpectClose(evaluation[2], expected.losses, 3e-7);
    for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const Array d_logits(dtype, {rows, vocabulary});
      const std::vector<Array> results =
          RunKernel(lane(), {&logits, &targets, &losses, &d_logits}, Softmax);
      EXPECT_TRUE(results[2].SameBits(evaluation[2]));
      ExpectClose(results[3], expected.d_logits, dtype == DType::kFloat32 ? 1e-6 : 0x1.04p-8,
                  dtype == DType::kFloat32 ? 0.1 : 1e-3);
    }
  }
}

TEST_F(CudaSoftmaxCrossEntropyTest, ExtremeLogits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Array losses(DType::kFloat64, {1});
  const Array d_logits(DType::kFloat32, {1, 9});
  const Array target(DType::kInt32, {1}, {1});
  const auto run = [&](const std::vector<double>& logits) {
    const Array array(DType::kFloat32, {1, 9}, logits);
    std::vector<Array> results = RunKernel(lane(), {&array, &target, &losses, &d_logits}, Softmax);
    EXPECT_EQ(std::isnan(results[3].values()[0]), std::isnan(results[2].values()[0]));
    return results[2].values()[0];
  };
  EXPECT_NEAR(run({1000, 900, -1000, 0, 0, 0, 0, 0, 0}), 100, 1e-4);
  EXPECT_NEAR(run({0, 0, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -kInfinity,
                   -kInfinity}),
              std::log(2), 1e-6);
  EXPECT_TRUE(std::isnan(run({0, 0, 0, 0, 0, NAN, 0, 0, 0})));
}

TEST_F(CudaSoftmaxCrossEntropyTest, ForeignTargetsAreFaultsAndCountAsTheFirst) {
  const Array logits = RandomArray(DType::kFloat32, {2, 3}, 1);
  const Array losses(DType::kFloat64, {2});
  const Array valid(DType::kInt32, {2}, {2, 0});
  const Array expected = std::move(RunKernel(lane(), {&logits, &valid, &losses}, Softmax)[2]);
  for (const int target : {-1, 3}) {
    const Array targets(DType::kInt32, {2}, {2, static_cast<double>(target)});
    EXPECT_TRUE(RunKernel(lane(), {&logits, &targets, &losses}, Softmax)[2].SameBits(expected));
    const CudaFault fault = TakeFault();
    EXPECT_EQ(fault.kind, CudaFault::kTargetOutOfRange);
    EXPECT_EQ(fault.value, target);
    EXPECT_EQ(fault.position, 101);
    EXPECT_EQ(fault.limit, 3);
  }
}

TEST_F(CudaSoftmaxCrossEntropyTest, LossesAreAddedInOrder) {
  for (int64_t count : {0, 1, 3, 255, 2100}) {
    const Array losses = RandomArray(DType::kFloat64, {count}, 1, 1000);
    const Array total(DType::kFloat64, {1});
    double expected = 0;
    for (double loss : losses.values()) expected += loss;
    const std::vector<Array> results =
        RunKernel(lane(), {&losses, &total}, [](Lane& lane, const auto& t) {
          return SumLosses(lane, t[0].template as<double>(), t[0].elements(),
                           t[1].template as<double>());
        });
    EXPECT_EQ(results[1].values()[0], expected);
  }
}

}  // namespace
}  // namespace tessera::kernels
