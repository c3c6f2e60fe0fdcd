#ifndef TESSERA_KERNELS_TESTING_NORMALIZATION_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_NORMALIZATION_REFERENCE_H_

#include <vector>

namespace tessera::kernels {

// LayerNorm (`centred`, with a bias) and RMSNorm in double precision, of rows as wide
// as `weight` has elements.
struct Normalization {
  bool centred = true;
  double epsilon = 0;
  std::vector<double> weight;
  std::vector<double> bias;  // zeros for RMSNorm

  std::vector<double> Forward(const std::vector<double>& x) const;

  struct Gradients {
    std::vector<double> x, weight, bias;
  };
  // Those of sum(Forward(x) * d_out).
  Gradients Backward(const std::vector<double>& x, const std::vector<double>& d_out) const;
};

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_NORMALIZATION_REFERENCE_H_
