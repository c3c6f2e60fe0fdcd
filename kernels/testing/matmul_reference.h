#ifndef TESSERA_KERNELS_TESTING_MATMUL_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_MATMUL_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/matmul.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {

struct MatMulCase {
  int64_t m = 0;
  int64_t k = 0;
  int64_t n = 0;
  Transpose transpose_a = Transpose::kNo;
  Transpose transpose_b = Transpose::kNo;
  DType input = DType::kFloat32;
  DType output = DType::kFloat32;
  bool bias = false;
};

inline std::string NameOf(const MatMulCase& c) {
  return absl::StrCat(c.m, "x", c.k, "x", c.n, c.transpose_a == Transpose::kYes ? " a'" : "",
                      c.transpose_b == Transpose::kYes ? " b'" : "", " ", tessera::NameOf(c.input),
                      "->", tessera::NameOf(c.output), c.bias ? " bias" : "");
}

inline Array MakeMatrix(DType dtype, int64_t rows, int64_t columns, Transpose transpose,
                        uint32_t stream) {
  if (transpose == Transpose::kYes) std::swap(rows, columns);
  return RandomArray(dtype, {rows, columns}, stream);
}

// In double precision.
inline std::vector<double> MatMulReference(const MatMulCase& c, const Array& a, const Array& b,
                                           const Array& bias) {
  const std::vector<double> av = a.values();
  const std::vector<double> bv = b.values();
  const std::vector<double> bias_values = bias.values();
  std::vector<double> result(static_cast<size_t>(c.m * c.n));
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = c.bias ? bias_values[j] : 0;
      for (int64_t l = 0; l < c.k; ++l) {
        sum += av[c.transpose_a == Transpose::kYes ? l * c.m + i : i * c.k + l] *
               bv[c.transpose_b == Transpose::kYes ? j * c.k + l : l * c.n + j];
      }
      result[i * c.n + j] = sum;
    }
  }
  return result;
}

// The size of the terms that an element is the sum of, for ExpectClose.
inline double MatMulScale(const MatMulCase& c) {
  return std::max(1.0, std::sqrt(static_cast<double>(c.k)) / 8);
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_MATMUL_REFERENCE_H_
