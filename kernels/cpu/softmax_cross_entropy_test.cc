#include "kernels/softmax_cross_entropy.h"

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/softmax_cross_entropy_reference.h"

namespace tessera::kernels {
namespace {

struct Outputs {
  Array losses, d_logits;
};

Outputs RunSoftmax(Lane& lane, const Array& logits, const Array& targets, DType dtype) {
  Outputs outputs = {Array(DType::kFloat64, targets.tensor().shape),
                     Array(dtype, logits.tensor().shape)};
  EXPECT_TRUE(SoftmaxCrossEntropy(lane, logits.Copy().tensor(), targets.tensor(), 0, kSoftmaxScale,
                                  outputs.losses.tensor().as<double>(), &outputs.d_logits.tensor())
                  .ok());
  return outputs;
}

double LossOf(const std::vector<double>& logits, double target) {
  InlineLane lane(1);
  const Array array(DType::kFloat32, {1, static_cast<int64_t>(logits.size())}, logits);
  return RunSoftmax(lane, array, Array(DType::kInt32, {1}, {target}), DType::kFloat32)
      .losses.values()[0];
}

TEST(SoftmaxCrossEntropy, AgreesWithDoublePrecision) {
  InlineLane lane(2);
  for (const auto& [rows, vocabulary] :
       {std::tuple<int64_t, int64_t>{1, 257}, {3, 50257}, {255, 5}, {3, 1}, {7, 4096}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << vocabulary);
    const Array logits = RandomArray(DType::kFloat32, {rows, vocabulary}, 1, 10);
    const Array targets = SoftmaxTargets(rows, vocabulary);
    const SoftmaxReference expected = SoftmaxReferenceOf(logits.values(), targets.values());
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const Outputs outputs = RunSoftmax(lane, logits, targets, dtype);
      ExpectClose(outputs.losses, expected.losses, 3e-7);
      ExpectClose(outputs.d_logits, expected.d_logits, Tolerance(dtype), 0.01);
      const Array losses(DType::kFloat64, {rows});
      ASSERT_TRUE(SoftmaxCrossEntropy(lane, logits.Copy().tensor(), targets.tensor(), 0, 1,
                                      losses.tensor().as<double>(), nullptr)
                      .ok());
      EXPECT_TRUE(losses.SameBits(outputs.losses));
    }
  }
}

TEST(SoftmaxCrossEntropy, SameBitsForAnyNumberOfThreads) {
  const Array logits = RandomArray(DType::kFloat32, {300, 1000}, 1, 5);
  const Array targets = SoftmaxTargets(300, 1000);
  ExpectThreadIndependent([&](Lane& lane) {
    Outputs outputs = RunSoftmax(lane, logits, targets, DType::kBFloat16);
    std::vector<Array> results;
    results.push_back(std::move(outputs.losses));
    results.push_back(std::move(outputs.d_logits));
    return results;
  });
}

TEST(SoftmaxCrossEntropy, ReferenceGradientAgreesWithFiniteDifferences) {
  const std::vector<double> logits = RandomArray(DType::kFloat64, {2, 7}, 1).values();
  const std::vector<double> targets = {6, 2};
  const std::vector<double> expected = FiniteDifferences(
      [&](const std::vector<double>& point) {
        const SoftmaxReference reference = SoftmaxReferenceOf(point, targets);
        return kSoftmaxScale * (reference.losses[0] + reference.losses[1]);
      },
      logits);
  ExpectClose(Array(DType::kFloat64, {14}, SoftmaxReferenceOf(logits, targets).d_logits), expected,
              1e-8);
}

TEST(SoftmaxCrossEntropy, ExtremeLogits) {
  EXPECT_NEAR(LossOf({1000, 900, -1000}, 1), 100, 1e-4);
  EXPECT_NEAR(LossOf({0, 0, -INFINITY}, 0), std::log(2), 1e-6);
  EXPECT_TRUE(std::isnan(LossOf({1, NAN, -1}, 0)));
}

TEST(SoftmaxCrossEntropy, RefusesTargetsOutsideTheVocabulary) {
  InlineLane lane(1);
  const Array logits = RandomArray(DType::kFloat32, {2, 3}, 1);
  for (const int target : {-1, 3}) {
    const Array targets(DType::kInt32, {2}, {0, static_cast<double>(target)});
    const Array losses(DType::kFloat64, {2});
    const absl::Status status = SoftmaxCrossEntropy(lane, logits.tensor(), targets.tensor(), 256, 1,
                                                    losses.tensor().as<double>(), nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(status.message(), "target " + std::to_string(target) +
                                    " in row 257 is outside the vocabulary [0, 3): the data was "
                                    "made with another tokenizer");
  }
}

}  // namespace
}  // namespace tessera::kernels
