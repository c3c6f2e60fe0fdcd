#ifndef TESSERA_KERNELS_TESTING_LINEAR_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_LINEAR_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {

// A linear layer to test, with GELU behind it and with GELU before it.
struct LinearCase {
  LinearCase(DType dtype, int64_t rows, int64_t in, int64_t out);

  int64_t rows, in, out;
  Array x, weight, bias, d_y;
  Array pre_activation;  // of x's shape, as if x were its GELU
};

// What there is to know of it, in double precision.
struct LinearResult {
  explicit LinearResult(const LinearCase& c);

  std::vector<double> y, gelu_of_y;
  std::vector<double> d_x, d_weight, d_bias;
  std::vector<double> gelu, d_pre_activation;  // of pre_activation
};

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_LINEAR_REFERENCE_H_
