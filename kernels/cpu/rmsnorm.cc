#include "kernels/rmsnorm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/row_chunks.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kRows = 8;  // of a forward tile

std::vector<float> Floats(const Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  LoadFloats(tensor, 0, tensor.elements(), values.data());
  return values;
}

}  // namespace

absl::Status RmsNormForward(Lane& lane, const Tensor& x, const Tensor* residual, const Tensor* sum,
                            const Tensor& weight, const Tensor& out, const Tensor& rstd) {
  const int64_t width = weight.elements();
  const int64_t rows = rstd.elements();
  const std::vector<float> weights = Floats(weight);
  lane.pool().For((rows + kRows - 1) / kRows, [&](int64_t tile) {
    std::vector<float> buffer(2 * width);
    float* values = buffer.data();
    float* other = values + width;
    Vectorized([&] {
      for (int64_t row = tile * kRows; row < std::min(rows, (tile + 1) * kRows); ++row) {
        LoadFloats(x, row * width, width, values);
        if (residual != nullptr) {
          LoadFloats(*residual, row * width, width, other);
          for (int64_t i = 0; i < width; ++i) values[i] += other[i];
          StoreFloats(values, row * width, width, *sum);
          LoadFloats(*sum, row * width, width, values);
        }
        const float mean_square = Sum(width, [&](int64_t i) { return values[i] * values[i]; }) /
                                  static_cast<float>(width);
        const float row_rstd = 1.0f / std::sqrt(mean_square + kRmsNormEpsilon);
        for (int64_t i = 0; i < width; ++i) values[i] = values[i] * row_rstd * weights[i];
        StoreFloats(values, row * width, width, out);
        rstd.as<float>()[row] = row_rstd;
      }
    });
  });
  return absl::OkStatus();
}

int64_t RmsNormBackwardWorkspace(int64_t rows, int64_t width) {
  return RowChunks(rows) * width * SizeOf(DType::kFloat32);
}

absl::Status RmsNormBackward(Lane& lane, const Tensor& d_out, const Tensor& x, const Tensor& weight,
                             const Tensor& rstd, const Tensor* residual_gradient, const Tensor& d_x,
                             const Tensor& d_weight, std::byte* workspace) {
  const int64_t width = weight.elements();
  const int64_t rows = rstd.elements();
  const std::vector<float> weights = Floats(weight);
  auto* partial = reinterpret_cast<float*>(workspace);
  const int64_t chunks = RowChunks(rows);
  lane.pool().For(chunks, [&](int64_t chunk) {
    std::vector<float> buffer(4 * width);
    float* gradient = buffer.data();
    float* normal = gradient + width;
    float* extra = normal + width;
    float* weight_sum = extra + width;
    const int64_t end = std::min(rows, (chunk + 1) * kRowChunk);
    Vectorized([&] {
      for (int64_t row = chunk * kRowChunk; row < end; ++row) {
        const float row_rstd = rstd.as<float>()[row];
        LoadFloats(d_out, row * width, width, gradient);
        LoadFloats(x, row * width, width, normal);
        if (residual_gradient != nullptr) {
          LoadFloats(*residual_gradient, row * width, width, extra);
        }
        for (int64_t i = 0; i < width; ++i) {
          normal[i] *= row_rstd;
          weight_sum[i] = std::fma(gradient[i], normal[i], weight_sum[i]);
          gradient[i] *= weights[i];
        }
        const float along_normal = Sum(width, [&](int64_t i) { return gradient[i] * normal[i]; }) /
                                   static_cast<float>(width);
        for (int64_t i = 0; i < width; ++i) {
          gradient[i] =
              std::fma(std::fma(-normal[i], along_normal, gradient[i]), row_rstd, extra[i]);
        }
        StoreFloats(gradient, row * width, width, d_x);
      }
    });
    std::copy_n(weight_sum, width, partial + chunk * width);
  });
  SumRowChunks(lane, partial, chunks, width, d_weight);
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
