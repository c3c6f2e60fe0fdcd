#include "kernels/swiglu.h"

#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/swiglu_reference.h"

namespace tessera::kernels {
namespace {

class CudaSwiGluTest : public CudaTest, public testing::WithParamInterface<DType> {};

absl::Status Backward(Lane& lane, const std::vector<Tensor>& t) {
  return SwiGluBackward(lane, t[0], t[1], t[2], t[3]);
}

TEST_P(CudaSwiGluTest, AgreesWithDoublePrecision) {
  for (const auto& [rows, width] : {std::tuple<int64_t, int64_t>{0, 8},
                                    {1, 1},
                                    {255, 48},
                                    {3, 257},
                                    {3, 768},
                                    {1, 1600},
                                    {1, 50257}}) {
    const Array x = RandomArray(GetParam(), {rows, 2 * width}, 1, 6);
    const Array dy = RandomArray(GetParam(), {rows, width}, 2);
    const Array y(GetParam(), {rows, width});
    const Array dx(GetParam(), {rows, 2 * width});
    const std::vector<Array> forward = RunKernel(lane(), {&x, &y}, [](Lane& lane, const auto& t) {
      return SwiGluForward(lane, t[0], t[1]);
    });
    const std::vector<Array> backward = RunKernel(lane(), {&x, &dy, &y, &dx}, Backward);
    const double tolerance = GetParam() == DType::kBFloat16 ? Tolerance(GetParam()) : 1e-6;
    ExpectClose(forward[1], SwiGluReference(x.values(), width), tolerance, 0.1);
    ExpectClose(backward[3], SwiGluGradientReference(x.values(), width, dy.values()), tolerance);
    EXPECT_TRUE(backward[2].SameBits(forward[1]));
    const std::vector<Array> in_place =
        RunKernel(lane(), {&x, &dy, &y}, [](Lane& lane, const auto& t) {
          return Backward(lane, {t[0], t[1], t[2], t[0]});
        });
    EXPECT_TRUE(in_place[0].SameBits(backward[3]));
  }
}

TEST_P(CudaSwiGluTest, Tails) {
  const Array x(GetParam(), {4, 2}, {-200, 1, -20, 1, 20, 1, 200, 1});
  const Array ones(GetParam(), {4, 1}, {1, 1, 1, 1});
  const Array y(GetParam(), {4, 1});
  const Array dx(GetParam(), {4, 2});
  const std::vector<Array> results = RunKernel(lane(), {&x, &ones, &y, &dx}, Backward);
  ExpectClose(results[2], SwiGluReference(x.values(), 1), Tolerance(GetParam()), 1e-25);
  ExpectClose(results[3], SwiGluGradientReference(x.values(), 1, ones.values()),
              Tolerance(GetParam()), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaSwiGluTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
