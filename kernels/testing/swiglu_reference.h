#ifndef TESSERA_KERNELS_TESTING_SWIGLU_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_SWIGLU_REFERENCE_H_

#include <cmath>
#include <cstddef>
#include <vector>

namespace tessera::kernels {

// As in kernels/swiglu.h, in double precision.
inline double SiluReference(double gate) { return gate / (1 + std::exp(-gate)); }

inline std::vector<double> SwiGluReference(const std::vector<double>& x, size_t width) {
  std::vector<double> y(x.size() / 2);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t gate = i / width * 2 * width + i % width;
    y[i] = SiluReference(x[gate]) * x[gate + width];
  }
  return y;
}

// The gradient of x, with silu's derivative by central differences.
inline std::vector<double> SwiGluGradientReference(const std::vector<double>& x, size_t width,
                                                   const std::vector<double>& dy) {
  constexpr double kStep = 1e-5;
  std::vector<double> dx(x.size());
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t gate = i / width * 2 * width + i % width;
    const double slope =
        (SiluReference(x[gate] + kStep) - SiluReference(x[gate] - kStep)) / (2 * kStep);
    dx[gate] = dy[i] * x[gate + width] * slope;
    dx[gate + width] = dy[i] * SiluReference(x[gate]);
  }
  return dx;
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_SWIGLU_REFERENCE_H_
