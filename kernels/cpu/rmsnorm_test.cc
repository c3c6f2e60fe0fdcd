#include "kernels/rmsnorm.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"
#include "kernels/testing/normalization_reference.h"

namespace tessera::kernels {
namespace {

using Values = std::vector<double>;

struct Case {
  int64_t rows, width;
};
constexpr Case kCases[] = {{1, 48}, {3, 1}, {3, 768}, {255, 48}, {5, 1600}, {65, 17}};
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

Normalization ReferenceOf(const Array& weight) {
  return {/*centred=*/false, static_cast<double>(kRmsNormEpsilon), weight.values(),
          Values(weight.values().size())};
}

TEST(RmsNormForward, MatchesDoubles) {
  InlineLane lane(2);
  for (DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      const Array x = RandomArray(dtype, {c.rows, c.width}, 1);
      const Array residual = RandomArray(dtype, {c.rows, c.width}, 2, 3);
      const Array weight = RandomArray(dtype, {c.width}, 3);
      const Array sum(dtype, {c.rows, c.width});
      const Array out(dtype, {c.rows, c.width});
      const Array rstd(DType::kFloat32, {c.rows});
      const Normalization reference = ReferenceOf(weight);
      ASSERT_TRUE(RmsNormForward(lane, x.tensor(), nullptr, nullptr, weight.tensor(), out.tensor(),
                                 rstd.tensor())
                      .ok());
      ExpectClose(out, reference.Forward(x.values()), Tolerance(dtype));

      ASSERT_TRUE(RmsNormForward(lane, x.tensor(), &residual.tensor(), &sum.tensor(),
                                 weight.tensor(), out.tensor(), rstd.tensor())
                      .ok());
      Values expected_sum = x.values();
      const Values other = residual.values();
      for (size_t i = 0; i < expected_sum.size(); ++i) {
        expected_sum[i] = static_cast<float>(expected_sum[i]) + static_cast<float>(other[i]);
      }
      EXPECT_TRUE(sum.SameBits(Array(dtype, {c.rows, c.width}, expected_sum)));
      ExpectClose(out, reference.Forward(sum.values()), Tolerance(dtype));
    }
  }
}

struct Gradients {
  Array d_x, d_weight;
};

Gradients Backward(Lane& lane, const Array& d_out, const Array& x, const Array& weight,
                   const Array* residual, DType parameter_dtype) {
  const Shape& shape = x.tensor().shape;
  const Array out(x.tensor().dtype, shape);
  const Array rstd(DType::kFloat32, {shape[0]});
  EXPECT_TRUE(RmsNormForward(lane, x.tensor(), nullptr, nullptr, weight.tensor(), out.tensor(),
                             rstd.tensor())
                  .ok());
  Gradients gradients = {Array(x.tensor().dtype, shape), Array(parameter_dtype, {shape[1]})};
  const Array workspace(DType::kFloat32, {RmsNormBackwardWorkspace(shape[0], shape[1]) / 4});
  EXPECT_TRUE(RmsNormBackward(lane, d_out.tensor(), x.tensor(), weight.tensor(), rstd.tensor(),
                              residual == nullptr ? nullptr : &residual->tensor(),
                              gradients.d_x.tensor(), gradients.d_weight.tensor(),
                              workspace.bytes())
                  .ok());
  return gradients;
}

TEST(RmsNormBackward, MatchesDoubles) {
  InlineLane lane(2);
  for (DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      const Array x = RandomArray(dtype, {c.rows, c.width}, 1);
      const Array weight = RandomArray(dtype, {c.width}, 2);
      const Array d_out = RandomArray(dtype, {c.rows, c.width}, 3);
      const Array residual = RandomArray(dtype, {c.rows, c.width}, 5);
      Normalization::Gradients expected = ReferenceOf(weight).Backward(x.values(), d_out.values());
      const Gradients plain = Backward(lane, d_out, x, weight, nullptr, dtype);
      ExpectClose(plain.d_x, expected.x, Tolerance(dtype));
      ExpectClose(plain.d_weight, expected.weight, Tolerance(dtype), 10);

      const Gradients fused = Backward(lane, d_out, x, weight, &residual, DType::kFloat32);
      const Values extra = residual.values();
      for (size_t i = 0; i < extra.size(); ++i) expected.x[i] += extra[i];
      ExpectClose(fused.d_x, expected.x, Tolerance(dtype));
      ExpectClose(fused.d_weight, expected.weight, Tolerance(DType::kFloat32), 10);
    }
  }
}

TEST(RmsNorm, ThreadsDoNotMatter) {
  const Array x = RandomArray(DType::kBFloat16, {255, 48}, 1);
  const Array weight = RandomArray(DType::kBFloat16, {48}, 2);
  const Array d_out = RandomArray(DType::kBFloat16, {255, 48}, 3);
  ExpectThreadIndependent([&](Lane& lane) {
    Gradients gradients = Backward(lane, d_out, x, weight, nullptr, DType::kFloat32);
    std::vector<Array> outputs;
    outputs.push_back(std::move(gradients.d_x));
    outputs.push_back(std::move(gradients.d_weight));
    return outputs;
  });
}

}  // namespace
}  // namespace tessera::kernels
