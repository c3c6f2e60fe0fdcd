#include "kernels/gelu.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/gelu_reference.h"

namespace tessera::kernels {
namespace {

class CudaGeluTest : public CudaTest, public testing::WithParamInterface<DType> {};

TEST_P(CudaGeluTest, AgreesWithDoublePrecision) {
  for (const int64_t elements : {0, 1, 17, 50257}) {
    const Array x = RandomArray(GetParam(), {elements}, 1, 12);
    const Array dy = RandomArray(GetParam(), {elements}, 2);
    const Array out(GetParam(), {elements});
    const std::vector<Array> forward = RunKernel(lane(), {&x, &out}, [](Lane& lane, const auto& t) {
      return GeluForward(lane, t[0], t[1]);
    });
    const std::vector<Array> backward = RunKernel(
        lane(), {&x, &dy, &out, &out},
        [](Lane& lane, const auto& t) { return GeluBackward(lane, t[0], t[1], t[2], t[3]); });
    const std::vector<double> at = x.values();
    const std::vector<double> upstream = dy.values();
    std::vector<double> y;
    std::vector<double> dx;
    for (size_t i = 0; i < at.size(); ++i) {
      y.push_back(GeluReference(at[i]));
      dx.push_back(upstream[i] * GeluDerivativeReference(at[i]));
    }
    const double tolerance = GetParam() == DType::kBFloat16 ? Tolerance(GetParam()) : 1e-6;
    ExpectClose(forward[1], y, tolerance, 0.1);
    ExpectClose(backward[3], dx, tolerance);
    EXPECT_TRUE(backward[2].SameBits(forward[1]));
  }
}

TEST_P(CudaGeluTest, Tails) {
  const Array x(GetParam(), {5}, {-1e4, -20, -5, 20, 1e4});
  const Array ones(GetParam(), {5}, std::vector<double>(5, 1));
  const Array out(GetParam(), {5});
  const std::vector<Array> results = RunKernel(
      lane(), {&x, &ones, &out, &out},
      [](Lane& lane, const auto& t) { return GeluBackward(lane, t[0], t[1], t[2], t[3]); });
  std::vector<double> y;
  for (const double value : x.values()) y.push_back(GeluReference(value));
  ExpectClose(results[2], y, Tolerance(GetParam()), 1e-25);
  ExpectClose(results[3], {0, 0, GeluDerivativeReference(-5), 1, 1}, 2 * Tolerance(GetParam()),
              1e-6);
}

TEST_P(CudaGeluTest, InPlace) {
  const Array x = RandomArray(GetParam(), {3, 333}, 1, 4);
  const Array dy = RandomArray(GetParam(), {3, 333}, 2);
  const Array out(GetParam(), {3, 333});
  const std::vector<Array> results =
      RunKernel(lane(), {&x, &dy, &out, &dy, &out}, [](Lane& lane, const auto& t) {
        TESSERA_RETURN_IF_ERROR(GeluBackward(lane, t[0], t[1], t[2], t[1]));
        TESSERA_RETURN_IF_ERROR(GeluBackward(lane, t[0], t[3], t[2], t[4]));
        return GeluForward(lane, t[0], t[0]);
      });
  EXPECT_TRUE(results[0].SameBits(results[2]));
  EXPECT_TRUE(results[1].SameBits(results[4]));
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaGeluTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
