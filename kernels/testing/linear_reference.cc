#include "kernels/testing/linear_reference.h"

#include "kernels/testing/gelu_reference.h"

namespace tessera::kernels {

LinearCase::LinearCase(DType dtype, int64_t rows, int64_t in, int64_t out)
    : rows(rows),
      in(in),
      out(out),
      x(RandomArray(dtype, {rows, in}, 1)),
      weight(RandomArray(dtype, {in, out}, 2)),
      bias(RandomArray(dtype, {out}, 3)),
      d_y(RandomArray(dtype, {rows, out}, 4)),
      pre_activation(RandomArray(dtype, {rows, in}, 5, 3)) {}

LinearResult::LinearResult(const LinearCase& c)
    : y(c.rows * c.out),
      d_x(c.rows * c.in),
      d_weight(c.in * c.out),
      d_bias(c.out),
      d_pre_activation(c.rows * c.in) {
  const std::vector<double> x = c.x.values();
  const std::vector<double> weight = c.weight.values();
  const std::vector<double> bias = c.bias.values();
  const std::vector<double> d_y = c.d_y.values();
  const std::vector<double> pre_activation = c.pre_activation.values();
  for (int64_t r = 0; r < c.rows; ++r) {
    for (int64_t o = 0; o < c.out; ++o) {
      double& sum = y[r * c.out + o];
      sum = bias[o];
      d_bias[o] += d_y[r * c.out + o];
      for (int64_t i = 0; i < c.in; ++i) {
        sum += x[r * c.in + i] * weight[i * c.out + o];
        d_x[r * c.in + i] += d_y[r * c.out + o] * weight[i * c.out + o];
        d_weight[i * c.out + o] += x[r * c.in + i] * d_y[r * c.out + o];
      }
    }
  }
  for (const double value : y) gelu_of_y.push_back(GeluReference(value));
  for (size_t i = 0; i < pre_activation.size(); ++i) {
    gelu.push_back(GeluReference(pre_activation[i]));
    d_pre_activation[i] = d_x[i] * GeluDerivativeReference(pre_activation[i]);
  }
}

}  // namespace tessera::kernels
