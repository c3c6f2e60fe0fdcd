#include "tools/train/matrix_rate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "core/tensor.h"
#include "kernels/matmul.h"

namespace tessera {

absl::StatusOr<double> MeasureMatrixRate(Lane& lane, DType dtype) {
  constexpr int64_t kSize = 1024;
  constexpr int kTries = 5;
  std::vector<std::byte> memory(3 * kSize * kSize * SizeOf(dtype));
  const auto matrix = [&](int64_t i) {
    return Tensor{memory.data() + i * kSize * kSize * SizeOf(dtype), dtype, {kSize, kSize}};
  };
  double best = 0;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    TESSERA_RETURN_IF_ERROR(kernels::MatMul(lane, matrix(0), kernels::Transpose::kNo, matrix(1),
                                            kernels::Transpose::kNo, nullptr, matrix(2)));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds.count());
  }
  return best;
}

}  // namespace tessera
