#include "kernels/layernorm.h"

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

absl::Status LayerNormForward(Lane& lane, const Tensor& x, const Tensor* residual,
                              const Tensor* sum, const Tensor& weight, const Tensor& bias,
                              const Tensor& out, const Tensor& mean, const Tensor& rstd) {
  const int64_t width = weight.elements();
  const int64_t rows = mean.elements();
  const std::vector<float> weights = Floats(weight);
  const std::vector<float> biases = Floats(bias);
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
        const float row_mean =
            Sum(width, [&](int64_t i) { return values[i]; }) / static_cast<float>(width);
        const float variance = Sum(width,
                                   [&](int64_t i) {
                                     const float deviation = values[i] - row_mean;
                                     return deviation * deviation;
                                   }) /
                               static_cast<float>(width);
        const float row_rstd = 1.0f / std::sqrt(variance + kLayerNormEpsilon);
        for (int64_t i = 0; i < width; ++i) {
          other[i] = std::fma((values[i] - row_mean) * row_rstd, weights[i], biases[i]);
        }
        StoreFloats(other, row * width, width, out);
        mean.as<float>()[row] = row_mean;
        rstd.as<float>()[row] = row_rstd;
      }
    });
  });
  return absl::OkStatus();
}

int64_t LayerNormBackwardWorkspace(int64_t rows, int64_t width) {
  return RowChunks(rows) * 2 * width * SizeOf(DType::kFloat32);
}

absl::Status LayerNormBackward(Lane& lane, const Tensor& d_out, const Tensor& x,
                               const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                               const Tensor* residual_gradient, const Tensor& d_x,
                               const Tensor& d_weight, const Tensor& d_bias, std::byte* workspace) {
  const int64_t width = weight.elements();
  const int64_t rows = mean.elements();
  const std::vector<float> weights = Floats(weight);
  auto* partial = reinterpret_cast<float*>(workspace);
  const int64_t chunks = RowChunks(rows);
  lane.pool().For(chunks, [&](int64_t chunk) {
    std::vector<float> buffer(5 * width);
    float* gradient = buffer.data();
    float* normal = gradient + width;
    float* extra = normal + width;
    float* weight_sum = extra + width;
    float* bias_sum = weight_sum + width;
    const int64_t end = std::min(rows, (chunk + 1) * kRowChunk);
    Vectorized([&] {
      for (int64_t row = chunk * kRowChunk; row < end; ++row) {
        const float row_mean = mean.as<float>()[row];
        const float row_rstd = rstd.as<float>()[row];
        LoadFloats(d_out, row * width, width, gradient);
        LoadFloats(x, row * width, width, normal);
        if (residual_gradient != nullptr) {
          LoadFloats(*residual_gradient, row * width, width, extra);
        }
        for (int64_t i = 0; i < width; ++i) {
          normal[i] = (normal[i] - row_mean) * row_rstd;
          weight_sum[i] = std::fma(gradient[i], normal[i], weight_sum[i]);
          bias_sum[i] += gradient[i];
          gradient[i] *= weights[i];
        }
        const float along_ones =
            Sum(width, [&](int64_t i) { return gradient[i]; }) / static_cast<float>(width);
        const float along_normal = Sum(width, [&](int64_t i) { return gradient[i] * normal[i]; }) /
                                   static_cast<float>(width);
        for (int64_t i = 0; i < width; ++i) {
          const float centred = gradient[i] - along_ones;
          gradient[i] = std::fma(std::fma(-normal[i], along_normal, centred), row_rstd, extra[i]);
        }
        StoreFloats(gradient, row * width, width, d_x);
      }
    });
    std::copy_n(weight_sum, 2 * width, partial + chunk * 2 * width);
  });
  SumRowChunks(lane, partial, chunks, 2 * width, d_weight);
  SumRowChunks(lane, partial + width, chunks, 2 * width, d_bias);
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
