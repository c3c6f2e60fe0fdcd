#ifndef TESSERA_KERNELS_TESTING_GELU_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_GELU_REFERENCE_H_

#include <cmath>
#include <numbers>

namespace tessera::kernels {

// As in kernels/gelu.h, in double precision, without cancellation in the tails.
inline double GeluReference(double x) {
  const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

inline double GeluDerivativeReference(double x) {
  constexpr double kStep = 1e-5;
  return (GeluReference(x + kStep) - GeluReference(x - kStep)) / (2 * kStep);
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_GELU_REFERENCE_H_
