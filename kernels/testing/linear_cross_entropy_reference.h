#ifndef TESSERA_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_REFERENCE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {

// Of the gradient.
inline constexpr float kHeadScale = 0.25f;

struct HeadResult {
  double loss = 0;
  std::vector<double> d_logits;
};

// In double precision.
inline HeadResult HeadReference(const std::vector<double>& x, const std::vector<double>& weight,
                                const std::vector<double>& targets, int64_t width) {
  const int64_t vocabulary = static_cast<int64_t>(weight.size()) / width;
  HeadResult result;
  for (size_t row = 0; row < targets.size(); ++row) {
    std::vector<double> exponentials;
    double sum = 0;
    for (int64_t v = 0; v < vocabulary; ++v) {
      double logit = 0;
      for (int64_t i = 0; i < width; ++i) logit += x[row * width + i] * weight[v * width + i];
      exponentials.push_back(std::exp(logit));
      sum += exponentials.back();
    }
    const int64_t target = static_cast<int64_t>(targets[row]);
    result.loss -= std::log(exponentials[target] / sum);
    for (int64_t v = 0; v < vocabulary; ++v) {
      result.d_logits.push_back((exponentials[v] / sum - (v == target ? 1 : 0)) * kHeadScale);
    }
  }
  return result;
}

inline Array HeadTargets(int64_t rows, int64_t vocabulary) {
  std::vector<double> targets;
  for (int64_t row = 0; row < rows; ++row) targets.push_back((row * 37 + 5) % vocabulary);
  targets.back() = static_cast<double>(vocabulary - 1);
  return Array(DType::kInt32, {rows}, targets);
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_LINEAR_CROSS_ENTROPY_REFERENCE_H_
