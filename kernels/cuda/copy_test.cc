#include "kernels/copy.h"

#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"

namespace tessera::kernels {
namespace {

class CudaCopyTest : public CudaTest {};

TEST_F(CudaCopyTest, SameBitsAsTheCpu) {
  for (int64_t elements : {0, 1, 15, 100003}) {
    const Array from = SpreadArray(DType::kFloat32, {elements}, 1);
    const Array to(DType::kFloat32, {elements});
    ExpectSameBitsAsCpu({&from, &to}, [](Lane& lane, const auto& t) {
      return Copy(lane, static_cast<const std::byte*>(t[0].data),
                  static_cast<std::byte*>(t[1].data), t[0].bytes());
    });
  }
}

}  // namespace
}  // namespace tessera::kernels
