#include "kernels/elementwise.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"

namespace tessera::kernels {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr int64_t kSizes[] = {0, 1, 15, 1024, 50257};

class CudaElementwiseTest : public CudaTest {};

TEST_F(CudaElementwiseTest, SumContributions) {
  for (DType dtype : kDTypes) {
    for (int64_t elements : kSizes) {
      const Array a = RandomArray(DType::kFloat32, {elements}, 1, 1000);
      const Array b = RandomArray(DType::kFloat32, {elements}, 2);
      const Array c = RandomArray(DType::kFloat32, {elements}, 3, 1000);
      const Array out(dtype, {elements});
      ExpectSameBitsAsCpu({&a, &b, &c, &out}, [](Lane& lane, const auto& t) {
        return SumContributions(lane, {t[0], t[1], t[2]}, t[3]);
      });
      ExpectSameBitsAsCpu({&a, &b}, [](Lane& lane, const auto& t) {  // in place
        return SumContributions(lane, {t[0], t[1]}, t[1]);
      });
    }
  }
}

TEST_F(CudaElementwiseTest, Add) {
  for (DType a_dtype : kDTypes) {
    for (DType b_dtype : kDTypes) {
      for (DType out_dtype : kDTypes) {
        for (int64_t elements : kSizes) {
          const Array a = RandomArray(a_dtype, {elements}, 1, 1000);
          const Array b = RandomArray(b_dtype, {elements}, 2);
          const Array out(out_dtype, {elements});
          ExpectSameBitsAsCpu({&a, &b, &out}, [](Lane& lane, const auto& t) {
            return Add(lane, t[0], t[1], t[2]);
          });
        }
      }
    }
  }
}

// At addresses that are aligned to an element alone.
TEST_F(CudaElementwiseTest, WithoutVectors) {
  for (DType dtype : kDTypes) {
    const Array a = RandomArray(dtype, {2053}, 1);
    const Array out(dtype, {2053});
    ExpectSameBitsAsCpu({&a, &out}, [](Lane& lane, const auto& t) {
      return Add(lane, Part(t[0], 1, 2050), Part(t[0], 3, 2050), Part(t[1], 2, 2050));
    });
  }
}

TEST_F(CudaElementwiseTest, Convert) {
  for (DType from : kDTypes) {
    for (DType to : kDTypes) {
      for (int64_t elements : kSizes) {
        const Array x = RandomArray(from, {elements}, 1);
        const Array y(to, {elements});
        ExpectSameBitsAsCpu({&x, &y},
                            [](Lane& lane, const auto& t) { return Convert(lane, t[0], t[1]); });
      }
    }
  }
}

TEST_F(CudaElementwiseTest, FillZero) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
    for (int64_t elements : kSizes) {
      const Array x(dtype, {elements});
      ExpectSameBitsAsCpu({&x}, [](Lane& lane, const auto& t) { return FillZero(lane, t[0]); });
    }
  }
}

TEST_F(CudaElementwiseTest, Dropout) {
  const RandomKey key{7, RandomPurpose::kDropout, 5, 3, 11};
  for (DType dtype : kDTypes) {
    for (int64_t elements : kSizes) {
      for (float probability : {0.0f, 0.1f, 0.75f}) {
        const Array x = RandomArray(dtype, {elements}, 1);
        const Array y(dtype, {elements});
        ExpectSameBitsAsCpu({&x, &y}, [&](Lane& lane, const auto& t) {
          return Dropout(lane, t[0], probability, key, t[1]);
        });
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
