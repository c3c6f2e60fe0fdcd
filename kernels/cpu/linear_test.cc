#include "kernels/linear.h"

#include <array>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/linear_reference.h"

namespace tessera::kernels {
namespace {

class LinearTest : public testing::TestWithParam<DType> {
 protected:
  Array Output(const Shape& shape) const { return Array(GetParam(), shape); }

  InlineLane lane_{2};
};

TEST_P(LinearTest, AgreesWithDoublePrecision) {
  for (const auto& [rows, in, out] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {3, 48, 5}, {17, 24, 64}, {255, 7, 30}}) {
    const LinearCase c(GetParam(), rows, in, out);
    const LinearResult expected(c);
    const double tolerance = Tolerance(GetParam());
    const auto scale = [](int64_t terms) { return std::sqrt(static_cast<double>(terms)); };

    const Array y = Output({rows, out});
    ASSERT_TRUE(
        LinearForward(lane_, c.x.tensor(), c.weight.tensor(), c.bias.tensor(), y.tensor()).ok());
    ExpectClose(y, expected.y, tolerance, scale(in));

    const Array pre = Output({rows, out});
    const Array gelu = Output({rows, out});
    ASSERT_TRUE(LinearGeluForward(lane_, c.x.tensor(), c.weight.tensor(), c.bias.tensor(),
                                  &pre.tensor(), gelu.tensor())
                    .ok());
    EXPECT_TRUE(pre.SameBits(y));
    ExpectClose(gelu, expected.gelu_of_y, 2 * tolerance, scale(in));
    const Array gelu_alone = Output({rows, out});
    ASSERT_TRUE(LinearGeluForward(lane_, c.x.tensor(), c.weight.tensor(), c.bias.tensor(), nullptr,
                                  gelu_alone.tensor())
                    .ok());
    EXPECT_TRUE(gelu_alone.SameBits(gelu));

    const Array d_x = Output({rows, in});
    ASSERT_TRUE(LinearBackwardInput(lane_, c.d_y.tensor(), c.weight.tensor(), d_x.tensor()).ok());
    ExpectClose(d_x, expected.d_x, tolerance, scale(out));

    const Array d_pre = Output({rows, in});
    const Array x = Output({rows, in});
    ASSERT_TRUE(LinearBackwardGelu(lane_, c.d_y.tensor(), c.weight.tensor(),
                                   c.pre_activation.tensor(), d_pre.tensor(), x.tensor())
                    .ok());
    ExpectClose(d_pre, expected.d_pre_activation, 2 * tolerance, scale(out));
    ExpectClose(x, expected.gelu, tolerance);

    const Array workspace(DType::kFloat32, {LinearBackwardWorkspace(rows, out) / 4});
    for (const DType dtype : {GetParam(), DType::kFloat32}) {
      const Array d_weight(dtype, {in, out});
      const Array d_bias(dtype, {out});
      ASSERT_TRUE(LinearBackwardParameters(lane_, c.x.tensor(), c.d_y.tensor(),
                                           {d_weight.tensor(), d_bias.tensor()}, workspace.bytes())
                      .ok());
      ExpectClose(d_weight, expected.d_weight, Tolerance(dtype), scale(rows));
      ExpectClose(d_bias, expected.d_bias, Tolerance(dtype), scale(rows));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, LinearTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
