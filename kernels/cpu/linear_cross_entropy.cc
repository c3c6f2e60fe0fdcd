#include "kernels/linear_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/status.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/matmul.h"

namespace tessera::kernels::cpu {
namespace {

// Turns logits into exponentials relative to the largest, and returns the loss.
// Floats are summed over short pieces only, so the vocabulary's size costs no
// accuracy.
double Exponentiate(float* logits, int64_t vocabulary, int32_t target, double* sum) {
  constexpr int64_t kPiece = 1024;
  const float largest = Max(logits, vocabulary);
  const float target_logit = logits[target];
  *sum = 0;
  for (int64_t first = 0; first < vocabulary; first += kPiece) {
    float* piece = logits + first;
    const int64_t count = std::min(kPiece, vocabulary - first);
    *sum += Sum(count, [=](int64_t i) {
      piece[i] = Exp(piece[i] - largest);
      return piece[i];
    });
  }
  return std::log(*sum) + static_cast<double>(largest) - static_cast<double>(target_logit);
}

template <typename T>
void WriteGradient(const float* exponentials, int64_t vocabulary, int32_t target, double sum,
                   float scale, T* gradient) {
  const float factor = static_cast<float>(scale / sum);
  for (int64_t i = 0; i < vocabulary; ++i) gradient[i] = static_cast<T>(exponentials[i] * factor);
  gradient[target] = static_cast<T>(static_cast<float>((exponentials[target] / sum - 1) * scale));
}

}  // namespace

absl::Status LinearCrossEntropy(Lane& lane, const Tensor& x, const Tensor& weight,
                                const Tensor& targets, float gradient_scale, double* loss,
                                const Tensor* d_logits, std::byte* workspace) {
  const int64_t rows = targets.elements();
  const int64_t vocabulary = weight.shape[0];
  const int64_t width = weight.shape[1];
  TESSERA_CHECK(x.elements() == rows * width, "x");
  TESSERA_CHECK(d_logits == nullptr ||
                    (d_logits->dtype == x.dtype && d_logits->elements() == rows * vocabulary),
                "d_logits");
  const int32_t* target = targets.as<int32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    if (target[row] < 0 || target[row] >= vocabulary) {
      return absl::OutOfRangeError(absl::StrCat("target ", target[row], " in row ", row,
                                                " is outside the vocabulary [0, ", vocabulary,
                                                "): the data was made with another tokenizer"));
    }
  }
  double* losses = reinterpret_cast<double*>(workspace);
  float* logits = reinterpret_cast<float*>(workspace + LinearCrossEntropyLossBytes(rows));
  for (int64_t first = 0; first < rows; first += kLinearCrossEntropyRows) {
    const int64_t count = std::min(kLinearCrossEntropyRows, rows - first);
    const Tensor chunk{
        static_cast<std::byte*>(x.data) + first * width * SizeOf(x.dtype), x.dtype, {count, width}};
    TESSERA_RETURN_IF_ERROR(MatMul(lane, chunk, Transpose::kNo, weight, Transpose::kYes, nullptr,
                                   {logits, DType::kFloat32, {count, vocabulary}}));
    lane.pool().For(count, [&](int64_t i) {
      Vectorized([&] {
        const int64_t row = first + i;
        float* own = logits + i * vocabulary;
        double sum = 0;
        losses[row] = Exponentiate(own, vocabulary, target[row], &sum);
        if (d_logits == nullptr) return;
        if (x.dtype == DType::kBFloat16) {
          WriteGradient(own, vocabulary, target[row], sum, gradient_scale,
                        d_logits->as<BFloat16>() + row * vocabulary);
        } else {
          WriteGradient(own, vocabulary, target[row], sum, gradient_scale,
                        d_logits->as<float>() + row * vocabulary);
        }
      });
    });
  }
  *loss = 0;
  for (int64_t row = 0; row < rows; ++row) *loss += losses[row];
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
