#include "kernels/swiglu.h"

#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/swiglu_reference.h"

namespace tessera::kernels {
namespace {

class SwiGluTest : public testing::TestWithParam<DType> {};

TEST_P(SwiGluTest, AgreesWithDoublePrecision) {
  InlineLane lane(2);
  for (const auto& [rows, width] :
       {std::tuple<int64_t, int64_t>{0, 8}, {1, 1}, {3, 48}, {35, 257}, {2, 1600}}) {
    const Array x = RandomArray(GetParam(), {rows, 2 * width}, 1, 6);
    const Array dy = RandomArray(GetParam(), {rows, width}, 2);
    const Array y(GetParam(), {rows, width});
    const Array y_again(GetParam(), {rows, width});
    const Array dx(GetParam(), {rows, 2 * width});
    ASSERT_TRUE(SwiGluForward(lane, x.tensor(), y.tensor()).ok());
    ASSERT_TRUE(SwiGluBackward(lane, x.tensor(), dy.tensor(), y_again.tensor(), dx.tensor()).ok());
    const double tolerance = GetParam() == DType::kBFloat16 ? Tolerance(GetParam()) : 1e-6;
    ExpectClose(y, SwiGluReference(x.values(), width), tolerance, 0.1);
    ExpectClose(dx, SwiGluGradientReference(x.values(), width, dy.values()), tolerance);
    EXPECT_TRUE(y_again.SameBits(y));
    ASSERT_TRUE(SwiGluBackward(lane, x.tensor(), dy.tensor(), y.tensor(), x.tensor()).ok());
    EXPECT_TRUE(x.SameBits(dx));  // in place
  }
}

TEST_P(SwiGluTest, Tails) {
  InlineLane lane(1);
  const Array x(GetParam(), {4, 2}, {-200, 1, -20, 1, 20, 1, 200, 1});
  const Array ones(GetParam(), {4, 1}, {1, 1, 1, 1});
  const Array y(GetParam(), {4, 1});
  const Array dx(GetParam(), {4, 2});
  ASSERT_TRUE(SwiGluBackward(lane, x.tensor(), ones.tensor(), y.tensor(), dx.tensor()).ok());
  ExpectClose(y, SwiGluReference(x.values(), 1), Tolerance(GetParam()), 1e-25);
  ExpectClose(dx, SwiGluGradientReference(x.values(), 1, ones.values()), Tolerance(GetParam()),
              1e-3);
}

TEST_P(SwiGluTest, ThreadsDoNotMatter) {
  const Array x = RandomArray(GetParam(), {255, 514}, 1);
  const Array dy = RandomArray(GetParam(), {255, 257}, 2);
  ExpectThreadIndependent([&](Lane& lane) {
    std::vector<Array> outputs;
    outputs.emplace_back(GetParam(), Shape{255, 257});
    outputs.emplace_back(GetParam(), Shape{255, 514});
    EXPECT_TRUE(
        SwiGluBackward(lane, x.tensor(), dy.tensor(), outputs[0].tensor(), outputs[1].tensor())
            .ok());
    return outputs;
  });
}

INSTANTIATE_TEST_SUITE_P(DTypes, SwiGluTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
