#include "kernels/layernorm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

using Values = std::vector<double>;

struct Case {
  int64_t rows, width;
};
constexpr Case kCases[] = {{1, 48}, {3, 1}, {3, 768}, {255, 48}, {5, 1600}, {65, 17}};
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

Values Reference(const Values& x, const Values& weight, const Values& bias) {
  const size_t width = weight.size();
  Values out(x.size());
  for (size_t row = 0; row < x.size() / width; ++row) {
    const double* values = &x[row * width];
    double mean = 0;
    for (size_t i = 0; i < width; ++i) mean += values[i] / static_cast<double>(width);
    double variance = 0;
    for (size_t i = 0; i < width; ++i) {
      variance += (values[i] - mean) * (values[i] - mean) / static_cast<double>(width);
    }
    const double rstd = 1 / std::sqrt(variance + static_cast<double>(kLayerNormEpsilon));
    for (size_t i = 0; i < width; ++i) {
      out[row * width + i] = (values[i] - mean) * rstd * weight[i] + bias[i];
    }
  }
  return out;
}

double Dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(LayerNormForward, MatchesDoubles) {
  InlineLane lane(2);
  for (DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      const Array x = RandomArray(dtype, {c.rows, c.width}, 1);
      const Array residual = RandomArray(dtype, {c.rows, c.width}, 2, 3);
      const Array weight = RandomArray(dtype, {c.width}, 3);
      const Array bias = RandomArray(dtype, {c.width}, 4);
      const Array sum(dtype, {c.rows, c.width});
      const Array out(dtype, {c.rows, c.width});
      const Array mean(DType::kFloat32, {c.rows});
      const Array rstd(DType::kFloat32, {c.rows});
      ASSERT_TRUE(LayerNormForward(lane, x.tensor(), nullptr, nullptr, weight.tensor(),
                                   bias.tensor(), out.tensor(), mean.tensor(), rstd.tensor())
                      .ok());
      ExpectClose(out, Reference(x.values(), weight.values(), bias.values()), Tolerance(dtype));

      ASSERT_TRUE(LayerNormForward(lane, x.tensor(), &residual.tensor(), &sum.tensor(),
                                   weight.tensor(), bias.tensor(), out.tensor(), mean.tensor(),
                                   rstd.tensor())
                      .ok());
      Values expected_sum = x.values();
      const Values other = residual.values();
      for (size_t i = 0; i < expected_sum.size(); ++i) {
        expected_sum[i] = static_cast<float>(expected_sum[i]) + static_cast<float>(other[i]);
      }
      EXPECT_TRUE(sum.SameBits(Array(dtype, {c.rows, c.width}, expected_sum)));
      ExpectClose(out, Reference(sum.values(), weight.values(), bias.values()), Tolerance(dtype));
      ASSERT_TRUE(LayerNormForward(lane, x.tensor(), &residual.tensor(), &x.tensor(),
                                   weight.tensor(), bias.tensor(), out.tensor(), mean.tensor(),
                                   rstd.tensor())
                      .ok());
      EXPECT_TRUE(x.SameBits(sum));  // in place
    }
  }
}

struct Gradients {
  Array d_x, d_weight, d_bias;
};

Gradients Backward(Lane& lane, const Array& d_out, const Array& x, const Array& weight,
                   const Array* residual, DType parameter_dtype) {
  const Shape& shape = x.tensor().shape;
  const Array bias = RandomArray(x.tensor().dtype, {shape[1]}, 4);
  const Array out(x.tensor().dtype, shape);
  const Array mean(DType::kFloat32, {shape[0]});
  const Array rstd(DType::kFloat32, {shape[0]});
  EXPECT_TRUE(LayerNormForward(lane, x.tensor(), nullptr, nullptr, weight.tensor(), bias.tensor(),
                               out.tensor(), mean.tensor(), rstd.tensor())
                  .ok());
  Gradients gradients = {Array(x.tensor().dtype, shape), Array(parameter_dtype, {shape[1]}),
                         Array(parameter_dtype, {shape[1]})};
  const Array workspace(DType::kFloat32, {LayerNormBackwardWorkspace(shape[0], shape[1]) / 4});
  EXPECT_TRUE(LayerNormBackward(lane, d_out.tensor(), x.tensor(), weight.tensor(), mean.tensor(),
                                rstd.tensor(), residual == nullptr ? nullptr : &residual->tensor(),
                                gradients.d_x.tensor(), gradients.d_weight.tensor(),
                                gradients.d_bias.tensor(), workspace.bytes())
                  .ok());
  return gradients;
}

TEST(LayerNormBackward, MatchesFiniteDifferences) {
  InlineLane lane(2);
  for (const Case& c : {Case{3, 5}, Case{66, 3}, Case{2, 33}}) {
    for (DType dtype : kDTypes) {
      const Array x = RandomArray(dtype, {c.rows, c.width}, 1);
      const Array weight = RandomArray(dtype, {c.width}, 2);
      const Array d_out = RandomArray(dtype, {c.rows, c.width}, 3);
      const Array residual = RandomArray(dtype, {c.rows, c.width}, 5);
      const Gradients gradients = Backward(lane, d_out, x, weight, &residual, DType::kFloat32);
      const Values bias(c.width);
      const auto of_x = [&](const Values& point) {
        return Dot(Reference(point, weight.values(), bias), d_out.values()) +
               Dot(point, residual.values());
      };
      const auto of_weight = [&](const Values& point) {
        return Dot(Reference(x.values(), point, bias), d_out.values());
      };
      const auto of_bias = [&](const Values& point) {
        return Dot(Reference(x.values(), weight.values(), point), d_out.values());
      };
      ExpectClose(gradients.d_x, FiniteDifferences(of_x, x.values(), 1e-4), 2 * Tolerance(dtype));
      ExpectClose(gradients.d_weight, FiniteDifferences(of_weight, weight.values()), 1e-5, 5);
      ExpectClose(gradients.d_bias, FiniteDifferences(of_bias, bias), 1e-5, 5);
    }
  }
}

// The formula in doubles, on shapes that are too large for differences.
TEST(LayerNormBackward, MatchesDoubles) {
  InlineLane lane(2);
  for (DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      const Array x = RandomArray(dtype, {c.rows, c.width}, 1);
      const Array weight = RandomArray(dtype, {c.width}, 2);
      const Array d_out = RandomArray(dtype, {c.rows, c.width}, 3);
      const Gradients gradients = Backward(lane, d_out, x, weight, nullptr, dtype);
      const Values normal = Reference(x.values(), Values(c.width, 1), Values(c.width, 0));
      const Values g = d_out.values();
      const Values w = weight.values();
      const Values values = x.values();
      Values d_x(x.tensor().elements());
      Values d_weight(c.width);
      Values d_bias(c.width);
      for (int64_t row = 0; row < c.rows; ++row) {
        double mean = 0, variance = 0, along_ones = 0, along_normal = 0;
        for (int64_t i = 0; i < c.width; ++i) mean += values[row * c.width + i] / c.width;
        for (int64_t i = 0; i < c.width; ++i) {
          const int64_t at = row * c.width + i;
          variance += (values[at] - mean) * (values[at] - mean) / c.width;
          along_ones += g[at] * w[i] / c.width;
          along_normal += g[at] * w[i] * normal[at] / c.width;
          d_weight[i] += g[at] * normal[at];
          d_bias[i] += g[at];
        }
        const double rstd = 1 / std::sqrt(variance + static_cast<double>(kLayerNormEpsilon));
        for (int64_t i = 0; i < c.width; ++i) {
          const int64_t at = row * c.width + i;
          d_x[at] = rstd * (g[at] * w[i] - along_ones - normal[at] * along_normal);
        }
      }
      ExpectClose(gradients.d_x, d_x, Tolerance(dtype));
      ExpectClose(gradients.d_weight, d_weight, Tolerance(dtype), 10);
      ExpectClose(gradients.d_bias, d_bias, Tolerance(dtype), 10);
    }
  }
}

TEST(LayerNorm, ThreadsDoNotMatter) {
  const Array x = RandomArray(DType::kBFloat16, {255, 48}, 1);
  const Array weight = RandomArray(DType::kBFloat16, {48}, 2);
  const Array d_out = RandomArray(DType::kBFloat16, {255, 48}, 3);
  ExpectThreadIndependent([&](Lane& lane) {
    Gradients gradients = Backward(lane, d_out, x, weight, nullptr, DType::kFloat32);
    std::vector<Array> outputs;
    outputs.push_back(std::move(gradients.d_x));
    outputs.push_back(std::move(gradients.d_weight));
    outputs.push_back(std::move(gradients.d_bias));
    return outputs;
  });
}

}  // namespace
}  // namespace tessera::kernels
