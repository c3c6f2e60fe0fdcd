#include "kernels/linear_cross_entropy.h"

#include <tuple>
#include <vector>

#include "core/cuda_lane.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/linear_cross_entropy_reference.h"

namespace tessera::kernels {
namespace {

class CudaLinearCrossEntropyTest : public CudaTest, public testing::WithParamInterface<DType> {
 protected:
  // Loss, gradient of the logits, and the loss without asking for that.
  std::vector<Array> RunHead(const Array& x, const Array& weight, const Array& targets) {
    const Array loss(DType::kFloat64, {1});
    const int64_t rows = targets.tensor().elements();
    const int64_t vocabulary = weight.tensor().shape[0];
    const Array d_logits(GetParam(), {rows, vocabulary});
    const Array workspace(DType::kFloat32, {LinearCrossEntropyWorkspace(rows, vocabulary) / 4});
    return RunKernel(lane(), {&x, &weight, &targets, &loss, &d_logits, &loss, &workspace},
                     [](Lane& lane, const auto& t) {
                       auto* const workspace = static_cast<std::byte*>(t[6].data);
                       absl::Status status =
                           LinearCrossEntropy(lane, t[0], t[1], t[2], kHeadScale,
                                              static_cast<double*>(t[3].data), &t[4], workspace);
                       if (!status.ok()) return status;
                       return LinearCrossEntropy(lane, t[0], t[1], t[2], kHeadScale,
                                                 static_cast<double*>(t[5].data), nullptr,
                                                 workspace);
                     });
  }
};

TEST_P(CudaLinearCrossEntropyTest, AgreesWithDoublePrecision) {
  for (const auto& [rows, width, vocabulary] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 48, 257}, {3, 768, 257}, {259, 17, 103}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << width << ", " << vocabulary);
    const Array x = RandomArray(GetParam(), {rows, width}, 1, 2);
    const Array weight = RandomArray(GetParam(), {vocabulary, width}, 2, 0.5);
    const Array targets = HeadTargets(rows, vocabulary);
    const std::vector<Array> results = RunHead(x, weight, targets);
    const HeadResult expected = HeadReference(x.values(), weight.values(), targets.values(), width);
    EXPECT_NEAR(results[3].values()[0], expected.loss, 1e-6 * (1 + expected.loss));
    EXPECT_TRUE(results[5].SameBits(results[3]));
    ExpectClose(results[4], expected.d_logits, Tolerance(GetParam()), 0.01);
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
