#ifndef TESSERA_KERNELS_CUDA_FUSED_PRODUCT_H_
#define TESSERA_KERNELS_CUDA_FUSED_PRODUCT_H_

#include "absl/status/status.h"
#include "core/tensor.h"
#include "kernels/cuda/cublaslt_product.h"
#include "kernels/matmul.h"

namespace tessera::kernels::cuda {

// c = op(a) op(b) with an epilogue, for tensors as MatMul takes them. `bias` and
// `auxiliary` are null where the epilogue has none. Unimplemented, and nothing is
// issued, where cuBLASLt does not do this in one product, or an extent is 0.
absl::Status FusedProduct(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                          Transpose transpose_b, Epilogue epilogue, const Tensor* bias,
                          const Tensor* auxiliary, const Tensor& c);

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_FUSED_PRODUCT_H_
