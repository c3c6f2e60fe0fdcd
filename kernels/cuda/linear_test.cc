#include "kernels/linear.h"

#include <array>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/linear_reference.h"

namespace tessera::kernels {
namespace {

class CudaLinearTest : public CudaTest, public testing::WithParamInterface<DType> {};

// With widths that cuBLASLt fuses and such that it does not.
TEST_P(CudaLinearTest, AgreesWithDoublePrecision) {
  for (const auto& [rows, in, out] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {3, 48, 5}, {17, 24, 64}, {255, 7, 30}, {16, 64, 8}}) {
    const LinearCase c(GetParam(), rows, in, out);
    const LinearResult expected(c);
    const double tolerance = Tolerance(GetParam());
    const auto scale = [](int64_t terms) { return std::sqrt(static_cast<double>(terms)); };
    const Array wide(GetParam(), {rows, out});
    const Array narrow(GetParam(), {rows, in});

    const std::vector<Array> forward = RunKernel(
        lane(), {&c.x, &c.weight, &c.bias, &wide, &wide, &wide}, [](Lane& lane, const auto& t) {
          TESSERA_RETURN_IF_ERROR(LinearGeluForward(lane, t[0], t[1], t[2], nullptr, t[5]));
          return LinearGeluForward(lane, t[0], t[1], t[2], &t[3], t[4]);
        });
    ExpectClose(forward[3], expected.y, tolerance, scale(in));
    ExpectClose(forward[4], expected.gelu_of_y, 2 * tolerance, scale(in));
    ExpectClose(forward[5], expected.gelu_of_y, 2 * tolerance, scale(in));

    const std::vector<Array> backward =
        RunKernel(lane(), {&c.d_y, &c.weight, &c.pre_activation, &narrow, &narrow, &narrow},
                  [](Lane& lane, const auto& t) {
                    TESSERA_RETURN_IF_ERROR(LinearBackwardInput(lane, t[0], t[1], t[5]));
                    return LinearBackwardGelu(lane, t[0], t[1], t[2], t[3], t[4]);
                  });
    ExpectClose(backward[3], expected.d_pre_activation, 2 * tolerance, scale(out));
    ExpectClose(backward[4], expected.gelu, tolerance);
    ExpectClose(backward[5], expected.d_x, tolerance, scale(out));

    for (const DType dtype : {GetParam(), DType::kFloat32}) {
      const Array d_weight(dtype, {in, out});
      const Array d_bias(dtype, {out});
      const std::vector<Array> gradients = RunKernel(
          lane(), {&c.x, &c.d_y, &d_weight, &d_bias},
          [](Lane& lane, const auto& t) {
            return LinearBackwardParameters(lane, t[0], t[1], {t[2], t[3]},
                                            static_cast<std::byte*>(t[4].data));
          },
          LinearBackwardWorkspace(rows, out));
      ExpectClose(gradients[2], expected.d_weight, Tolerance(dtype), scale(rows));
      ExpectClose(gradients[3], expected.d_bias, Tolerance(dtype), scale(rows));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaLinearTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
