#include "kernels/linear.h"

#include "core/status.h"
#include "kernels/cuda/fused_product.h"
#include "kernels/gelu.h"

namespace tessera::kernels::cuda {

decltype(kernels::GeluForward) GeluForward;

absl::Status LinearGeluForward(Lane& lane, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, const Tensor* pre_activation, const Tensor& y) {
  return FusedProduct(lane, x, Transpose::kNo, weight, Transpose::kNo,
                      pre_activation == nullptr ? Epilogue::kBiasGelu : Epilogue::kBiasGeluKeep,
                      &bias, pre_activation, y);
}

absl::Status LinearBackwardParameters(Lane& lane, const Tensor& x, const Tensor& d_y,
                                      const LinearGradients& gradients, std::byte* /*workspace*/) {
  return FusedProduct(lane, x, Transpose::kYes, d_y, Transpose::kNo, Epilogue::kColumnSum,
                      &gradients.bias, nullptr, gradients.weight);
}

absl::Status LinearBackwardGelu(Lane& lane, const Tensor& d_y, const Tensor& weight,
                                const Tensor& pre_activation, const Tensor& d_pre_activation,
                                const Tensor& x) {
  TESSERA_RETURN_IF_ERROR(FusedProduct(lane, d_y, Transpose::kNo, weight, Transpose::kYes,
                                       Epilogue::kGeluGradient, nullptr, &pre_activation,
                                       d_pre_activation));
  return cuda::GeluForward(lane, pre_activation, x);
}

}  // namespace tessera::kernels::cuda
