#include "kernels/linear_cross_entropy.h"

#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(LinearCrossEntropy);
TESSERA_DECLARE_BACKENDS(LinearCrossEntropyWorkspace);

int64_t LinearCrossEntropyWorkspace(int64_t rows, int64_t vocabulary) {
  return cpu::LinearCrossEntropyWorkspace(rows, vocabulary);
}

absl::Status LinearCrossEntropy(Lane& lane, const Tensor& x, const Tensor& weight,
                                const Tensor& targets, float gradient_scale, double* loss,
                                const Tensor* d_logits, std::byte* workspace) {
  TESSERA_DISPATCH(LinearCrossEntropy, lane, x, weight, targets, gradient_scale, loss, d_logits,
                   workspace);
}

}  // namespace tessera::kernels
