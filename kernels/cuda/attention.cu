#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/status.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_arguments.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// means[b, h, i] = out . d_out, a warp for each.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    MeansKernel(AttentionShape shape, const T* out, const T* d_out, float* means) {
  const int64_t index = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const int64_t rows = shape.batch * shape.length;
  if (index >= rows * shape.heads) return;
  const int64_t row = index / shape.heads;
  const int64_t head = index % shape.heads;
  const int64_t first = row * shape.OutWidth() + shape.QueryChannel(head);
  float sum = 0.0f;
  for (int64_t i = threadIdx.x % 32; i < shape.head_size; i += 32) {
    sum = fmaf(ToFloat(out[first + i]), ToFloat(d_out[first + i]), sum);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  if (threadIdx.x % 32 == 0) {
    means[(row / shape.length * shape.heads + head) * shape.length + row % shape.length] = sum;
  }
}

template <typename T>
AttentionInputs<T> InputsOf(const AttentionShape& shape, const Tensor& qkv,
                            float dropout_probability, const RandomKey& key) {
  return {.shape = shape,
          .qkv = static_cast<const T*>(qkv.data),
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size)),
          .dropout_probability = dropout_probability,
          .key = key,
          .qkv_width = static_cast<int>(shape.QkvWidth()),
          .out_width = static_cast<int>(shape.OutWidth())};
}

// Whether copies of 16 bytes can move the rows of heads.
template <typename... Tensors>
bool HaveWholePieces(const AttentionShape& shape, const Tensors&... tensors) {
  return shape.head_size % 8 == 0 && ((reinterpret_cast<uintptr_t>(tensors.data) % 16 == 0) && ...);
}

template <typename T>
absl::Status ForwardOf(Lane& lane, const AttentionShape& shape, const Tensor& qkv,
                       float dropout_probability, const RandomKey& key, const Tensor& out,
                       float* log_sum_exp) {
  const ForwardArguments<T> arguments = {InputsOf<T>(shape, qkv, dropout_probability, key),
                                         static_cast<T*>(out.data), log_sum_exp};
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (HaveWholePieces(shape, qkv, out)) return ForwardOnTensorCores(lane, arguments);
  }
  return ForwardInGeneral(lane, arguments);
}

template <typename T>
absl::Status BackwardOf(Lane& lane, const AttentionShape& shape, const Tensor& qkv,
                        const Tensor& out, const float* log_sum_exp, const Tensor& d_out,
                        float dropout_probability, const RandomKey& key, const Tensor& d_qkv,
                        float* means) {
  const BackwardArguments<T> arguments = {InputsOf<T>(shape, qkv, dropout_probability, key),
                                          static_cast<const T*>(d_out.data), log_sum_exp, means,
                                          static_cast<T*>(d_qkv.data)};
  const int64_t warps = shape.batch * shape.length * shape.heads;
  TESSERA_RETURN_IF_ERROR(TESSERA_LAUNCH(lane, MeansKernel<T>, CeilDivide(warps, kThreads / 32),
                                         kThreads, 0, shape, static_cast<const T*>(out.data),
                                         arguments.d_out, means));
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    if (HaveWholePieces(shape, qkv, d_out, d_qkv)) return BackwardOnTensorCores(lane, arguments);
  }
  return BackwardInGeneral(lane, arguments);
}

}  // namespace

absl::Status AttentionForward(Lane& lane, const Tensor& qkv, int64_t heads, int64_t kv_heads,
                              float dropout_probability, const RandomKey& key, const Tensor& out,
                              const Tensor& log_sum_exp) {
  const AttentionShape shape = AttentionShapeOf(qkv, heads, kv_heads, dropout_probability);
  float* const sums = log_sum_exp.data == nullptr ? nullptr : log_sum_exp.as<float>();
  const auto run = qkv.dtype == DType::kBFloat16 ? ForwardOf<__nv_bfloat16> : ForwardOf<float>;
  return run(lane, shape, qkv, dropout_probability, key, out, sums);
}

absl::Status AttentionBackward(Lane& lane, const Tensor& qkv, const Tensor& out,
                               const Tensor& log_sum_exp, const Tensor& d_out, int64_t heads,
                               int64_t kv_heads, float dropout_probability, const RandomKey& key,
                               const Tensor& d_qkv, std::byte* workspace) {
  const AttentionShape shape = AttentionShapeOf(qkv, heads, kv_heads, dropout_probability);
  const auto run = qkv.dtype == DType::kBFloat16 ? BackwardOf<__nv_bfloat16> : BackwardOf<float>;
  return run(lane, shape, qkv, out, log_sum_exp.as<float>(), d_out, dropout_probability, key, d_qkv,
             reinterpret_cast<float*>(workspace));
}

}  // namespace tessera::kernels::cuda
