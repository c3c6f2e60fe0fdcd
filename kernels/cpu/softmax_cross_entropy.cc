#include "kernels/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/status.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

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

absl::Status SoftmaxCrossEntropy(Lane& lane, const Tensor& logits, const Tensor& targets,
                                 int64_t first_row, float gradient_scale, double* row_losses,
                                 const Tensor* d_logits) {
  const int64_t rows = targets.elements();
  const int64_t vocabulary = logits.elements() / rows;
  const int32_t* target = targets.as<int32_t>();
  for (int64_t row = 0; row < rows; ++row) {
    if (target[row] >= 0 && target[row] < vocabulary) continue;
    return absl::OutOfRangeError(absl::StrCat("target ", target[row], " in row ", first_row + row,
                                              " is outside the vocabulary [0, ", vocabulary,
                                              "): the data was made with another tokenizer"));
  }
  lane.pool().For(rows, [&](int64_t row) {
    Vectorized([&] {
      float* own = logits.as<float>() + row * vocabulary;
      double sum = 0;
      row_losses[row] = Exponentiate(own, vocabulary, target[row], &sum);
      if (d_logits == nullptr) return;
      if (d_logits->dtype == DType::kBFloat16) {
        WriteGradient(own, vocabulary, target[row], sum, gradient_scale,
                      d_logits->as<BFloat16>() + row * vocabulary);
      } else {
        WriteGradient(own, vocabulary, target[row], sum, gradient_scale,
                      d_logits->as<float>() + row * vocabulary);
      }
    });
  });
  return absl::OkStatus();
}

absl::Status SumLosses(Lane& /*lane*/, const double* losses, int64_t count, double* total) {
  *total = 0;
  for (int64_t i = 0; i < count; ++i) *total += losses[i];
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
