#ifndef TESSERA_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "kernels/testing/softmax_cross_entropy_reference.h"

namespace tessera::kernels {

struct HeadResult {
  double loss = 0;
  std::vector<double> d_x, d_weight;  // times kSoftmaxScale
};

// In double precision.
inline HeadResult HeadReference(const std::vector<double>& x, const std::vector<double>& weight,
                                const std::vector<double>& targets, int64_t width) {
  const auto rows = static_cast<int64_t>(targets.size());
  const int64_t vocabulary = static_cast<int64_t>(weight.size()) / width;
  std::vector<double> logits(rows * vocabulary);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t v = 0; v < vocabulary; ++v) {
      for (int64_t i = 0; i < width; ++i) {
        logits[row * vocabulary + v] += x[row * width + i] * weight[v * width + i];
      }
    }
  }
  const SoftmaxReference softmax = SoftmaxReferenceOf(logits, targets);
  HeadResult result;
  for (const double loss : softmax.losses) result.loss += loss;
  result.d_x.resize(x.size());
  result.d_weight.resize(weight.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t v = 0; v < vocabulary; ++v) {
      const double d_logit = softmax.d_logits[row * vocabulary + v];
      for (int64_t i = 0; i < width; ++i) {
        result.d_x[row * width + i] += d_logit * weight[v * width + i];
        result.d_weight[v * width + i] += d_logit * x[row * width + i];
      }
    }
  }
  return result;
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_REFERENCE_H_
