#include "kernels/testing/normalization_reference.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

using Values = std::vector<double>;

TEST(Normalization, BackwardMatchesFiniteDifferences) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kWidth = 5;
  const Values x = RandomArray(DType::kFloat64, {kRows, kWidth}, 1).values();
  const Values d_out = RandomArray(DType::kFloat64, {kRows, kWidth}, 2).values();
  for (bool centred : {false, true}) {
    const Normalization normalization = {centred, 1e-5,
                                         RandomArray(DType::kFloat64, {kWidth}, 3).values(),
                                         RandomArray(DType::kFloat64, {kWidth}, 4).values()};
    const auto along_d_out = [&](const Normalization& changed, const Values& point) {
      const Values out = changed.Forward(point);
      double sum = 0;
      for (size_t i = 0; i < out.size(); ++i) sum += out[i] * d_out[i];
      return sum;
    };
    const Normalization::Gradients gradients = normalization.Backward(x, d_out);
    const auto expect_close = [](const Values& actual, const Values& expected) {
      ExpectClose(Array(DType::kFloat64, {static_cast<int64_t>(actual.size())}, actual), expected,
                  1e-8);
    };
    expect_close(gradients.x,
                 FiniteDifferences(
                     [&](const Values& point) { return along_d_out(normalization, point); }, x));
    expect_close(gradients.weight, FiniteDifferences(
                                       [&](const Values& point) {
                                         Normalization changed = normalization;
                                         changed.weight = point;
                                         return along_d_out(changed, x);
                                       },
                                       normalization.weight));
    expect_close(gradients.bias, FiniteDifferences(
                                     [&](const Values& point) {
                                       Normalization changed = normalization;
                                       changed.bias = point;
                                       return along_d_out(changed, x);
                                     },
                                     normalization.bias));
  }
}

}  // namespace
}  // namespace tessera::kernels
