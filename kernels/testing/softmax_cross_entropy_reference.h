#ifndef TESSERA_KERNELS_TESTING_SOFTMAX_CROSS_ENTROPY_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_SOFTMAX_CROSS_ENTROPY_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {

// Of the gradient.
inline constexpr float kSoftmaxScale = 0.25f;

// In double precision.
struct SoftmaxReference {
  std::vector<double> losses;
  std::vector<double> d_logits;  // of kSoftmaxScale times the losses' sum
};

inline SoftmaxReference SoftmaxReferenceOf(const std::vector<double>& logits,
                                           const std::vector<double>& targets) {
  const size_t vocabulary = logits.size() / targets.size();
  SoftmaxReference reference;
  for (size_t row = 0; row < targets.size(); ++row) {
    const double* own = &logits[row * vocabulary];
    double largest = own[0];
    for (size_t v = 0; v < vocabulary; ++v) largest = std::max(largest, own[v]);
    double sum = 0;
    for (size_t v = 0; v < vocabulary; ++v) sum += std::exp(own[v] - largest);
    const auto target = static_cast<size_t>(targets[row]);
    reference.losses.push_back(std::log(sum) + largest - own[target]);
    for (size_t v = 0; v < vocabulary; ++v) {
      reference.d_logits.push_back(kSoftmaxScale *
                                   (std::exp(own[v] - largest) / sum - (v == target ? 1 : 0)));
    }
  }
  return reference;
}

inline Array SoftmaxTargets(int64_t rows, int64_t vocabulary) {
  std::vector<double> targets;
  for (int64_t row = 0; row < rows; ++row) {
    targets.push_back(static_cast<double>((row * 37 + 5) % vocabulary));
  }
  targets.back() = static_cast<double>(vocabulary - 1);
  return Array(DType::kInt32, {rows}, targets);
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_SOFTMAX_CROSS_ENTROPY_REFERENCE_H_
