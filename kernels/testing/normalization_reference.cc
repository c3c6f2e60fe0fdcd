#include "kernels/testing/normalization_reference.h"

#include <cmath>
#include <cstddef>

namespace tessera::kernels {
namespace {

struct Row {
  double mean = 0;
  double rstd = 0;

  Row(const double* values, size_t width, const Normalization& options) {
    const auto count = static_cast<double>(width);
    for (size_t i = 0; i < width && options.centred; ++i) mean += values[i] / count;
    double variance = 0;
    for (size_t i = 0; i < width; ++i) variance += (values[i] - mean) * (values[i] - mean) / count;
    rstd = 1 / std::sqrt(variance + options.epsilon);
  }
};

}  // namespace

std::vector<double> Normalization::Forward(const std::vector<double>& x) const {
  const size_t width = weight.size();
  std::vector<double> out(x.size());
  for (size_t start = 0; start < x.size(); start += width) {
    const Row row(&x[start], width, *this);
    for (size_t i = 0; i < width; ++i) {
      out[start + i] = (x[start + i] - row.mean) * row.rstd * weight[i] + bias[i];
    }
  }
  return out;
}

Normalization::Gradients Normalization::Backward(const std::vector<double>& x,
                                                 const std::vector<double>& d_out) const {
  const size_t width = weight.size();
  Gradients gradients = {std::vector<double>(x.size()), std::vector<double>(width),
                         std::vector<double>(width)};
  for (size_t start = 0; start < x.size(); start += width) {
    const Row row(&x[start], width, *this);
    double along_ones = 0;
    double along_normal = 0;
    for (size_t i = 0; i < width; ++i) {
      const double normal = (x[start + i] - row.mean) * row.rstd;
      const double inner = d_out[start + i] * weight[i];
      if (centred) along_ones += inner / static_cast<double>(width);
      along_normal += inner * normal / static_cast<double>(width);
      gradients.weight[i] += d_out[start + i] * normal;
      gradients.bias[i] += d_out[start + i];
    }
    for (size_t i = 0; i < width; ++i) {
      const double normal = (x[start + i] - row.mean) * row.rstd;
      gradients.x[start + i] =
          row.rstd * (d_out[start + i] * weight[i] - along_ones - normal * along_normal);
    }
  }
  return gradients;
}

}  // namespace tessera::kernels
