#include "kernels/linear_cross_entropy.h"

#include <cmath>
#include <tuple>
#include <vector>

#include "core/cuda_lane.h"
#include "core/sanitizers.h"
#include "core/status.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/linear_cross_entropy_reference.h"

namespace tessera::kernels {
namespace {

class CudaLinearCrossEntropyTest : public CudaTest, public testing::WithParamInterface<DType> {
 protected:
  // The operands, the loss, the gradients of x and weight, and the loss by itself.
  std::vector<Array> RunHead(const Array& x, const Array& weight, const Array& targets) {
    const Array loss(DType::kFloat64, {1});
    const Array d_x(GetParam(), x.tensor().shape);
    const Array d_weight(DType::kFloat32, weight.tensor().shape);
    return RunKernel(
        lane(), {&x, &weight, &targets, &loss, &d_x, &d_weight, &loss},
        [](Lane& lane, const auto& t) {
          auto* const workspace = static_cast<std::byte*>(t[7].data);
          TESSERA_RETURN_IF_ERROR(
              LinearCrossEntropy(lane, t[0], t[1], t[2], t[6].template as<double>(), workspace));
          return LinearCrossEntropyGradients(lane, t[0], t[1], t[2], kSoftmaxScale,
                                             t[3].template as<double>(), t[4], t[5], workspace);
        },
        LinearCrossEntropyGradientsWorkspace(targets.tensor().elements(), weight.tensor().shape[0],
                                             DType::kFloat32));
  }
};

TEST_P(CudaLinearCrossEntropyTest, AgreesWithDoublePrecision) {
  for (const auto& [rows, width, vocabulary] : {std::tuple<int64_t, int64_t, int64_t>{1, 48, 257},
                                                {3, 768, 257},
                                                {kLogitRows + 3, 17, 103},
                                                {kLogitGradientRows + 1, 8, 5}}) {
    // Slow without a GPU, and more so with a sanitizer.
    if (rows > kLogitGradientRows && kSanitized) continue;
    if (rows > (kSanitized ? kLogitRows : kLogitGradientRows) && GetParam() == DType::kFloat32) {
      continue;
    }
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width << ", " << vocabulary);
    const Array x = RandomArray(GetParam(), {rows, width}, 1, 2);
    const Array weight = RandomArray(GetParam(), {vocabulary, width}, 2, 0.5);
    const Array targets = SoftmaxTargets(rows, vocabulary);
    const std::vector<Array> results = RunHead(x, weight, targets);
    const HeadResult expected = HeadReference(x.values(), weight.values(), targets.values(), width);
    EXPECT_NEAR(results[3].values()[0], expected.loss, 1e-6 * (1 + expected.loss));
    EXPECT_TRUE(results[6].SameBits(results[3]));
    ExpectClose(results[4], expected.d_x, Tolerance(GetParam()), 0.1);
    // Of logits' gradients that were each rounded.
    ExpectClose(results[5], expected.d_weight, Tolerance(GetParam()),
                0.3 * std::sqrt(static_cast<double>(rows)));
  }
}

TEST_P(CudaLinearCrossEntropyTest, ATargetOutsideTheVocabularyIsAFault) {
  const Array x = RandomArray(GetParam(), {300, 8}, 1);
  const Array weight = RandomArray(GetParam(), {10, 8}, 2);
  std::vector<double> values(300, 3);
  values[290] = 10;
  RunHead(x, weight, Array(DType::kInt32, {300}, values));
  const CudaFault fault = TakeFault();
  EXPECT_EQ(fault.kind, CudaFault::kTargetOutOfRange);
  EXPECT_EQ(fault.value, 10);
  EXPECT_EQ(fault.position, 290);
  EXPECT_EQ(fault.limit, 10);
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaLinearCrossEntropyTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
