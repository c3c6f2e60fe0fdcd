#include "kernels/linear_cross_entropy.h"

#include <algorithm>

#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(LinearCrossEntropy);

int64_t LinearCrossEntropyWorkspace(int64_t rows, int64_t vocabulary) {
  return LinearCrossEntropyLossBytes(rows) +
         std::min(rows, kLinearCrossEntropyRows) * vocabulary * SizeOf(DType::kFloat32);
}

absl::Status LinearCrossEntropy(Lane& lane, const Tensor& x, const Tensor& weight,
                                const Tensor& targets, float gradient_scale, double* loss,
                                const Tensor* d_logits, std::byte* workspace) {
  TESSERA_DISPATCH(LinearCrossEntropy, lane, x, weight, targets, gradient_scale, loss, d_logits,
                   workspace);
}

}  // namespace tessera::kernels
