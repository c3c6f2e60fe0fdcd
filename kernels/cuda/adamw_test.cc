#include "kernels/adamw.h"

#include <vector>

#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"

namespace tessera::kernels {
namespace {

class CudaAdamWTest : public CudaTest {};

// Several steps, so that moments are not zero.
Kernel Steps(bool clip, bool copy) {
  return [=](Lane& lane, const std::vector<Tensor>& t) {
    for (int step = 1; step <= 3; ++step) {
      TESSERA_RETURN_IF_ERROR(AdamW(lane, MakeAdamWScalars(3e-3, 0.9, 0.95, 1e-8, 0.1, step), t[0],
                                    clip ? t[1].as<double>() : nullptr, t[2], t[3], t[4],
                                    copy ? &t[5] : nullptr));
    }
    return absl::OkStatus();
  };
}

TEST_F(CudaAdamWTest, SameBitsAsTheCpu) {
  const Array factor(DType::kFloat64, {1}, {0.37});
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (DType copy_dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (int64_t elements : {0, 1, 3, 1023, 1025, 50257}) {
        const Array gradient = RandomArray(dtype, {elements}, 1);
        const Array master = RandomArray(DType::kFloat32, {elements}, 2);
        const Array moment(DType::kFloat32, {elements}, std::vector<double>(elements));
        const Array copy(copy_dtype, {elements});
        for (bool clip : {false, true}) {
          ExpectSameBitsAsCpu({&gradient, &factor, &master, &moment, &moment, &copy},
                              Steps(clip, true));
        }
      }
    }
  }
}

TEST_F(CudaAdamWTest, StochasticRounding) {
  const StochasticRounding rounding = {{7, RandomPurpose::kRounding, 3, 0, 11}, 4 * 12345};
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    // More than all the blocks take at once.
    const int64_t elements = kSanitized ? 5003 : (int64_t{1} << 21) + 5003;
    const Array gradient = RandomArray(dtype, {elements}, 1);
    const Array master = RandomArray(DType::kFloat32, {elements}, 2);
    const Array moment(DType::kFloat32, {elements}, std::vector<double>(elements));
    const Array copy(DType::kBFloat16, {elements});
    ExpectSameBitsAsCpu({&gradient, &master, &moment, &moment, &copy},
                        [&](Lane& lane, const auto& t) {
                          return AdamW(lane, MakeAdamWScalars(3e-3, 0.9, 0.95, 1e-8, 0.1, 1), t[0],
                                       nullptr, t[1], t[2], t[3], &t[4], &rounding);
                        });
  }
}

TEST_F(CudaAdamWTest, WithoutACopy) {
  const Array gradient = RandomArray(DType::kFloat32, {1025}, 1);
  const Array factor(DType::kFloat64, {1}, {0.37});
  const Array master = RandomArray(DType::kFloat32, {1025}, 2);
  const Array moment(DType::kFloat32, {1025}, std::vector<double>(1025));
  ExpectSameBitsAsCpu({&gradient, &factor, &master, &moment, &moment}, Steps(true, false));
}

}  // namespace
}  // namespace tessera::kernels
