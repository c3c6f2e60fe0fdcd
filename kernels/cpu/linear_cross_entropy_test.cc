#include "kernels/linear_cross_entropy.h"

#include <cmath>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/linear_cross_entropy_reference.h"

namespace tessera::kernels {
namespace {

class LinearCrossEntropyTest : public testing::TestWithParam<DType> {
 protected:
  // The loss, and the gradients of x and weight.
  static std::vector<Array> RunHead(Lane& lane, const Array& x, const Array& weight,
                                    const Array& targets) {
    const int64_t rows = targets.tensor().elements();
    const int64_t vocabulary = weight.tensor().shape[0];
    const DType dtype = x.tensor().dtype;
    const Array workspace(DType::kBFloat16,
                          {LinearCrossEntropyGradientsWorkspace(rows, vocabulary, dtype) / 2});
    std::vector<Array> results;
    results.emplace_back(DType::kFloat64, Shape{1});
    results.emplace_back(dtype, x.tensor().shape);
    results.emplace_back(DType::kFloat32, weight.tensor().shape);
    EXPECT_TRUE(LinearCrossEntropyGradients(lane, x.tensor(), weight.tensor(), targets.tensor(),
                                            kSoftmaxScale, results[0].tensor().as<double>(),
                                            results[1].tensor(), results[2].tensor(),
                                            workspace.bytes())
                    .ok());
    return results;
  }

  static absl::Status Evaluate(Lane& lane, const Array& x, const Array& weight,
                               const Array& targets, double* loss) {
    const Array workspace(
        DType::kFloat32,
        {LinearCrossEntropyWorkspace(targets.tensor().elements(), weight.tensor().shape[0]) / 4});
    return LinearCrossEntropy(lane, x.tensor(), weight.tensor(), targets.tensor(), loss,
                              workspace.bytes());
  }
};

// In one chunk of everything, in several of logits, and in two of their gradients.
TEST_P(LinearCrossEntropyTest, AgreesWithDoublePrecision) {
  InlineLane lane(2);
  for (const auto& [rows, width, vocabulary] : {std::tuple<int64_t, int64_t, int64_t>{1, 48, 257},
                                                {3, 768, 257},
                                                {255, 48, 5},
                                                {kLogitRows + 3, 17, 1030},
                                                {kLogitGradientRows + 1, 24, 37},
                                                {2, 3, 1}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width << ", " << vocabulary);
    const Array x = RandomArray(GetParam(), {rows, width}, 1, 2);
    const Array weight = RandomArray(GetParam(), {vocabulary, width}, 2, 0.5);
    const Array targets = SoftmaxTargets(rows, vocabulary);
    const std::vector<Array> results = RunHead(lane, x, weight, targets);
    const HeadResult expected = HeadReference(x.values(), weight.values(), targets.values(), width);
    const double loss = results[0].values()[0];
    EXPECT_NEAR(loss, expected.loss, 1e-6 * (1 + expected.loss));
    ExpectClose(results[1], expected.d_x, Tolerance(GetParam()), 0.1);
    // Of logits' gradients that were each rounded.
    ExpectClose(results[2], expected.d_weight, Tolerance(GetParam()),
                0.3 * std::sqrt(static_cast<double>(rows)));
    double evaluated = NAN;
    ASSERT_TRUE(Evaluate(lane, x, weight, targets, &evaluated).ok());
    EXPECT_EQ(evaluated, loss);
  }
}

TEST_P(LinearCrossEntropyTest, SameBitsForAnyNumberOfThreads) {
  const Array x = RandomArray(GetParam(), {kLogitGradientRows + 300, 24}, 1);
  const Array weight = RandomArray(GetParam(), {100, 24}, 2);
  const Array targets = SoftmaxTargets(kLogitGradientRows + 300, 100);
  ExpectThreadIndependent([&](Lane& lane) { return RunHead(lane, x, weight, targets); });
}

TEST_P(LinearCrossEntropyTest, NeedsNoMemoryForAllLogits) {
  constexpr int64_t kRows = int64_t{1} << 20;
  constexpr int64_t kVocabulary = 50257;
  EXPECT_LT(
      LinearCrossEntropyGradientsWorkspace(kRows, kVocabulary, GetParam()),
      8 * kRows + (4 * kLogitRows + SizeOf(GetParam()) * kLogitGradientRows) * kVocabulary + 128);
}

TEST_P(LinearCrossEntropyTest, RefusesTargetsOutsideTheVocabulary) {
  InlineLane lane(1);
  const Array x = RandomArray(GetParam(), {300, 4}, 1);
  const Array weight = RandomArray(GetParam(), {3, 4}, 2);
  std::vector<double> values(300, 1);
  values[290] = 3;
  double loss = 0;
  const absl::Status status = Evaluate(lane, x, weight, Array(DType::kInt32, {300}, values), &loss);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "target 3 in row 290 is outside the vocabulary [0, 3): the data was made with another "
            "tokenizer");
}

INSTANTIATE_TEST_SUITE_P(DTypes, LinearCrossEntropyTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
