#include "kernels/linear_cross_entropy.h"

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/linear_cross_entropy_reference.h"

namespace tessera::kernels {
namespace {

absl::Status RunHead(Lane& lane, const Array& x, const Array& weight, const Array& targets,
                     double* loss, const Array* d_logits) {
  const Array workspace(
      DType::kFloat32,
      {LinearCrossEntropyWorkspace(targets.tensor().elements(), weight.tensor().shape[0]) / 4});
  return LinearCrossEntropy(lane, x.tensor(), weight.tensor(), targets.tensor(), kHeadScale, loss,
                            d_logits == nullptr ? nullptr : &d_logits->tensor(), workspace.bytes());
}

class LinearCrossEntropyTest : public testing::TestWithParam<DType> {};

TEST_P(LinearCrossEntropyTest, AgreesWithDoublePrecision) {
  InlineLane lane(2);
  for (const auto& [rows, width, vocabulary] : {std::tuple<int64_t, int64_t, int64_t>{1, 48, 257},
                                                {3, 768, 257},
                                                {255, 48, 5},
                                                {259, 17, 1030},
                                                {2, 3, 1}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width << ", " << vocabulary);
    const Array x = RandomArray(GetParam(), {rows, width}, 1, 2);
    const Array weight = RandomArray(GetParam(), {vocabulary, width}, 2, 0.5);
    const Array targets = HeadTargets(rows, vocabulary);
    const Array d_logits(GetParam(), {rows, vocabulary});
    double loss = NAN;
    double evaluation_loss = NAN;
    ASSERT_TRUE(RunHead(lane, x, weight, targets, &loss, &d_logits).ok());
    ASSERT_TRUE(RunHead(lane, x, weight, targets, &evaluation_loss, nullptr).ok());
    const HeadResult expected = HeadReference(x.values(), weight.values(), targets.values(), width);
    EXPECT_NEAR(loss, expected.loss, 1e-6 * (1 + expected.loss));
    EXPECT_EQ(evaluation_loss, loss);
    ExpectClose(d_logits, expected.d_logits, Tolerance(GetParam()), 0.01);
  }
}

TEST_P(LinearCrossEntropyTest, SameBitsForAnyNumberOfThreads) {
  const Array x = RandomArray(GetParam(), {300, 24}, 1);
  const Array weight = RandomArray(GetParam(), {1000, 24}, 2);
  const Array targets = HeadTargets(300, 1000);
  ExpectThreadIndependent([&](Lane& lane) {
    std::vector<Array> outputs;
    outputs.emplace_back(GetParam(), Shape{300, 1000});
    double loss = NAN;
    EXPECT_TRUE(RunHead(lane, x, weight, targets, &loss, &outputs[0]).ok());
    outputs.emplace_back(DType::kFloat64, Shape{1}, std::vector<double>{loss});
    return outputs;
  });
}

INSTANTIATE_TEST_SUITE_P(DTypes, LinearCrossEntropyTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

TEST(LinearCrossEntropy, ReferenceGradientAgreesWithFiniteDifferences) {
  // With the identity for x, the weight's transpose is the logits.
  const std::vector<double> weight = RandomArray(DType::kFloat64, {7, 2}, 1).values();
  const std::vector<double> identity = {1, 0, 0, 1};
  const std::vector<double> targets = {6, 2};
  const std::vector<double> differences = FiniteDifferences(
      [&](const std::vector<double>& point) {
        return HeadReference(identity, point, targets, 2).loss * kHeadScale;
      },
      weight);
  std::vector<double> expected;
  for (size_t row = 0; row < 2; ++row) {
    for (size_t v = 0; v < 7; ++v) expected.push_back(differences[v * 2 + row]);
  }
  ExpectClose(Array(DType::kFloat64, {14}, HeadReference(identity, weight, targets, 2).d_logits),
              expected, 1e-8);
}

TEST(LinearCrossEntropy, LargeLogits) {
  InlineLane lane(1);
  const Array x(DType::kFloat32, {1, 1}, {1000});
  const Array weight(DType::kFloat32, {3, 1}, {1, 0.9, -1});
  const Array targets(DType::kInt32, {1}, {1});
  double loss = NAN;
  ASSERT_TRUE(RunHead(lane, x, weight, targets, &loss, nullptr).ok());
  EXPECT_NEAR(loss, 100, 1e-4);
}

TEST(LinearCrossEntropy, NanShowsInTheLoss) {
  InlineLane lane(1);
  const Array x(DType::kFloat32, {1, 1}, {1});
  const Array weight(DType::kFloat32, {3, 1}, {1, NAN, -1});
  const Array targets(DType::kInt32, {1}, {0});
  double loss = 0;
  ASSERT_TRUE(RunHead(lane, x, weight, targets, &loss, nullptr).ok());
  EXPECT_TRUE(std::isnan(loss));
}

TEST(LinearCrossEntropy, RefusesTargetsOutsideTheVocabulary) {
  InlineLane lane(1);
  const Array x = RandomArray(DType::kFloat32, {2, 4}, 1);
  const Array weight = RandomArray(DType::kFloat32, {3, 4}, 2);
  for (const int target : {-1, 3}) {
    const Array targets(DType::kInt32, {2}, {0, static_cast<double>(target)});
    double loss = 0;
    const absl::Status status = RunHead(lane, x, weight, targets, &loss, nullptr);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(status.message(), "target " + std::to_string(target) +
                                    " in row 1 is outside the vocabulary [0, 3): the data was "
                                    "made with another tokenizer");
  }
}

}  // namespace
}  // namespace tessera::kernels
