#include "kernels/softmax_cross_entropy.h"

#include "core/status.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(SoftmaxCrossEntropy);
TESSERA_DECLARE_BACKENDS(SumLosses);

absl::Status SoftmaxCrossEntropy(Lane& lane, const Tensor& logits, const Tensor& targets,
                                 int64_t first_row, float gradient_scale, double* row_losses,
                                 const Tensor* d_logits) {
  const int64_t rows = targets.elements();
  if (rows == 0) return absl::OkStatus();
  TESSERA_CHECK(logits.elements() % rows == 0, "logits");
  TESSERA_CHECK(d_logits == nullptr || d_logits->elements() == logits.elements(), "d_logits");
  TESSERA_DISPATCH(SoftmaxCrossEntropy, lane, logits, targets, first_row, gradient_scale,
                   row_losses, d_logits);
}

absl::Status SumLosses(Lane& lane, const double* losses, int64_t count, double* total) {
  TESSERA_DISPATCH(SumLosses, lane, losses, count, total);
}

}  // namespace tessera::kernels
