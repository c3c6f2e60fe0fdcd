#include "kernels/layernorm.h"

#include <vector>

#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/normalization_reference.h"

namespace tessera::kernels {
namespace {

using Values = std::vector<double>;

struct Case {
  int64_t rows, width;
};
// Every way to share a row: by a warp or a block, in vectors or not.
constexpr Case kCases[] = {{3, 1},   {3, 5},    {35, 17},  {255, 48}, {3, 512},
                           {3, 768}, {2, 1600}, {1, 2049}, {1, 8192}};
// A sanitizer makes wide blocks slow.
bool Skips(const Case& c) { return kSanitized && c.width > 2048; }

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

class CudaLayerNormTest : public CudaTest {};

Normalization ReferenceOf(const Array& weight, const Array& bias) {
  return {true, static_cast<double>(kLayerNormEpsilon), weight.values(), bias.values()};
}

TEST_F(CudaLayerNormTest, ForwardMatchesDoubles) {
  for (DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      if (Skips(c)) continue;
      SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.width);
      const Array x = RandomArray(dtype, {c.rows, c.width}, 1);
      const Array residual = RandomArray(dtype, {c.rows, c.width}, 2, 3);
      const Array weight = RandomArray(dtype, {c.width}, 3);
      const Array bias = RandomArray(dtype, {c.width}, 4);
      const Array out(dtype, {c.rows, c.width});
      const Array statistic(DType::kFloat32, {c.rows});
      const Normalization reference = ReferenceOf(weight, bias);

      const std::vector<Array> plain = RunKernel(
          lane(), {&x, &weight, &bias, &out, &statistic, &statistic},
          [](Lane& lane, const auto& t) {
            return LayerNormForward(lane, t[0], nullptr, nullptr, t[1], t[2], t[3], t[4], t[5]);
          });
      ExpectClose(plain[3], reference.Forward(x.values()), Tolerance(dtype));

      const Array sum(dtype, {c.rows, c.width});
      const std::vector<Array> fused = RunKernel(
          lane(), {&x, &weight, &bias, &out, &statistic, &statistic, &residual, &sum},
          [](Lane& lane, const auto& t) {
            return LayerNormForward(lane, t[0], &t[6], &t[7], t[1], t[2], t[3], t[4], t[5]);
          });
      Values expected_sum = x.values();
      const Values other = residual.values();
      for (size_t i = 0; i < expected_sum.size(); ++i) {
        expected_sum[i] = static_cast<float>(expected_sum[i]) + static_cast<float>(other[i]);
      }
      EXPECT_TRUE(fused[7].SameBits(Array(dtype, {c.rows, c.width}, expected_sum)));
      ExpectClose(fused[3], reference.Forward(fused[7].values()), Tolerance(dtype));

      // The sum in place of x.
      const std::vector<Array> in_place = RunKernel(
          lane(), {&x, &weight, &bias, &out, &statistic, &statistic, &residual},
          [](Lane& lane, const auto& t) {
            return LayerNormForward(lane, t[0], &t[6], &t[0], t[1], t[2], t[3], t[4], t[5]);
          });
      EXPECT_TRUE(in_place[0].SameBits(fused[7]));
      EXPECT_TRUE(in_place[3].SameBits(fused[3]));
    }
  }
}

// With what a forward on the same lane left.
Kernel Backward(bool residual) {
  return [=](Lane& lane, const std::vector<Tensor>& t) {
    const Tensor& x = t[0];
    TESSERA_RETURN_IF_ERROR(
        LayerNormForward(lane, x, nullptr, nullptr, t[1], t[2], t[3], t[4], t[5]));
    return LayerNormBackward(lane, t[6], x, t[1], t[4], t[5], residual ? &t[7] : nullptr, t[8],
                             t[9], t[10], static_cast<std::byte*>(t.back().data));
  };
}

TEST_F(CudaLayerNormTest, BackwardMatchesDoubles) {
  for (DType dtype : kDTypes) {
    for (DType parameter_dtype : kDTypes) {
      if (dtype == DType::kFloat32 && parameter_dtype == DType::kBFloat16) continue;
      for (const Case& c : kCases) {
        if (Skips(c)) continue;
        SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.width);
        const Array x = RandomArray(dtype, {c.rows, c.width}, 1);
        const Array weight = RandomArray(dtype, {c.width}, 2);
        const Array bias = RandomArray(dtype, {c.width}, 4);
        const Array out(dtype, {c.rows, c.width});
        const Array statistic(DType::kFloat32, {c.rows});
        const Array d_out = RandomArray(dtype, {c.rows, c.width}, 3);
        const Array residual = RandomArray(dtype, {c.rows, c.width}, 5);
        const Array d_x(dtype, {c.rows, c.width});
        const Array d_parameter(parameter_dtype, {c.width});
        const Normalization::Gradients expected =
            ReferenceOf(weight, bias).Backward(x.values(), d_out.values());
        for (bool with_residual : {false, true}) {
          const std::vector<Array> results =
              RunKernel(lane(),
                        {&x, &weight, &bias, &out, &statistic, &statistic, &d_out, &residual, &d_x,
                         &d_parameter, &d_parameter},
                        Backward(with_residual), LayerNormBackwardWorkspace(c.rows, c.width));
          Values d_x_expected = expected.x;
          const Values extra = residual.values();
          for (size_t i = 0; i < extra.size() && with_residual; ++i) d_x_expected[i] += extra[i];
          ExpectClose(results[8], d_x_expected, Tolerance(dtype));
          ExpectClose(results[9], expected.weight, Tolerance(parameter_dtype), 10);
          ExpectClose(results[10], expected.bias, Tolerance(parameter_dtype), 10);
        }
      }
    }
  }
}

TEST_F(CudaLayerNormTest, BackwardInPlaceOfTheGradient) {
  const Case c = {19, 200};
  const Array x = RandomArray(DType::kBFloat16, {c.rows, c.width}, 1);
  const Array weight = RandomArray(DType::kBFloat16, {c.width}, 2);
  const Array out(DType::kBFloat16, {c.rows, c.width});
  const Array statistic(DType::kFloat32, {c.rows});
  const Array d_out = RandomArray(DType::kBFloat16, {c.rows, c.width}, 3);
  const Array d_parameter(DType::kFloat32, {c.width});
  const std::vector<const Array*> operands = {&x,         &weight,      &weight,     &out,
                                              &statistic, &statistic,   &d_out,      &d_out,
                                              &out,       &d_parameter, &d_parameter};
  const int64_t bytes = LayerNormBackwardWorkspace(c.rows, c.width);
  const std::vector<Array> apart = RunKernel(lane(), operands, Backward(true), bytes);
  for (size_t target : {6, 7}) {  // of the output's gradient, of the residual's
    const std::vector<Array> in_place = RunKernel(
        lane(), operands,
        [=](Lane& lane, std::vector<Tensor> t) {
          t[8] = t[target];
          return Backward(true)(lane, t);
        },
        bytes);
    EXPECT_TRUE(in_place[target].SameBits(apart[8])) << target;
    EXPECT_TRUE(in_place[9].SameBits(apart[9])) << target;
  }
}

TEST_F(CudaLayerNormTest, RefusesRowsThatAreTooWide) {
  const DeviceArray x(DType::kFloat32, {1, 16392});
  const DeviceArray statistic(DType::kFloat32, {1});
  EXPECT_EQ(LayerNormForward(lane(), x.tensor(), nullptr, nullptr, x.tensor(), x.tensor(),
                             x.tensor(), statistic.tensor(), statistic.tensor())
                .message(),
            "rows of 16392 are too wide to normalise on a GPU");
}

}  // namespace
}  // namespace tessera::kernels
