#include "kernels/square_norm.h"

#include <limits>
#include <vector>

#include "core/exact_sum.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"

namespace tessera::kernels {
namespace {

class CudaSquareNormTest : public CudaTest {};

// The words of the accumulator, not only its value.
TEST_F(CudaSquareNormTest, SameBitsAsTheCpu) {
  const Array accumulator(DType::kInt64, {ExactSum::kWords});
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t elements : {0, 1, 15, 1023, 1024, 1025, 100003, 3 * 65536 + 1}) {
      const Array x = SpreadArray(dtype, {elements}, 1);
      ExpectSameBitsAsCpu({&x, &accumulator}, [](Lane& lane, const auto& t) {
        TESSERA_RETURN_IF_ERROR(SquareNorm(lane, t[0], t[1], /*add=*/false));
        return SquareNorm(lane, t[0], t[1], /*add=*/true);
      });
    }
  }
}

TEST_F(CudaSquareNormTest, WithoutVectors) {
  const Array accumulator(DType::kInt64, {ExactSum::kWords});
  const Array x = SpreadArray(DType::kBFloat16, {3000}, 1);
  ExpectSameBitsAsCpu({&x, &accumulator}, [](Lane& lane, const auto& t) {
    return SquareNorm(lane, Part(t[0], 1, 2999), t[1], /*add=*/false);
  });
}

TEST_F(CudaSquareNormTest, LargeTinyAndInvalidValues) {
  const Array accumulator(DType::kInt64, {ExactSum::kWords});
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::vector<double>& values :
       {std::vector<double>{0x1.fffffep127, 0x1p-149, -0x1.fffffep127},
        {0x1p-149, 1e-30},
        {1, infinity},
        {nan, 1}}) {
    const Array x(DType::kFloat32, {static_cast<int64_t>(values.size())}, values);
    ExpectSameBitsAsCpu({&x, &accumulator}, [](Lane& lane, const auto& t) {
      return SquareNorm(lane, t[0], t[1], /*add=*/false);
    });
  }
}

}  // namespace
}  // namespace tessera::kernels
