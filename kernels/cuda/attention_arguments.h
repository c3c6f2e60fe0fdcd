#ifndef TESSERA_KERNELS_CUDA_ATTENTION_ARGUMENTS_H_
#define TESSERA_KERNELS_CUDA_ATTENTION_ARGUMENTS_H_

#include <cuda_bf16.h>

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/host_device.h"
#include "core/philox.h"
#include "kernels/attention_shape.h"

namespace tessera::kernels::cuda {

// One head of one sequence: `length` rows of `columns` elements.
template <typename T>
struct HeadRows {
  T* first;
  int stride;  // from a row to the next, in elements
  int length;
  int columns;

  TESSERA_HOST_DEVICE T* Row(int row) const { return first + int64_t{row} * stride; }
};

template <typename T>
struct AttentionInputs {
  AttentionShape shape;
  const T* qkv;
  float scale;
  float dropout_probability;
  RandomKey key;
  int qkv_width;  // these of `shape`, for a kernel to find, not to compute and keep
  int out_width;

  // Heads in a tensor of qkv's shape, and in one of out's.
  template <typename U>
  TESSERA_HOST_DEVICE HeadRows<U> Query(U* tensor, int64_t sequence, int64_t head) const {
    return Rows(tensor, qkv_width, sequence, shape.QueryChannel(head));
  }
  template <typename U>
  TESSERA_HOST_DEVICE HeadRows<U> Key(U* tensor, int64_t sequence, int64_t kv_head) const {
    return Rows(tensor, qkv_width, sequence, shape.KeyChannel(kv_head));
  }
  template <typename U>
  TESSERA_HOST_DEVICE HeadRows<U> Value(U* tensor, int64_t sequence, int64_t kv_head) const {
    return Rows(tensor, qkv_width, sequence, shape.ValueChannel(kv_head));
  }
  template <typename U>
  TESSERA_HOST_DEVICE HeadRows<U> Out(U* tensor, int64_t sequence, int64_t head) const {
    return Rows(tensor, out_width, sequence, shape.QueryChannel(head));
  }

  // A row's position in a tensor [B, heads, T].
  TESSERA_HOST_DEVICE int64_t Scalar(int64_t sequence, int64_t head, int64_t row) const {
    return (sequence * shape.heads + head) * shape.length + row;
  }

  float Kept() const { return 1.0f / (1.0f - dropout_probability); }

 private:
  template <typename U>
  TESSERA_HOST_DEVICE HeadRows<U> Rows(U* tensor, int width, int64_t sequence,
                                       int64_t channel) const {
    return {tensor + sequence * shape.length * width + channel, width,
            static_cast<int>(shape.length), static_cast<int>(shape.head_size)};
  }
};

template <typename T>
struct ForwardArguments {
  AttentionInputs<T> inputs;
  T* out;
  float* log_sum_exp;  // or null
};

template <typename T>
struct BackwardArguments {
  AttentionInputs<T> inputs;
  const T* d_out;
  const float* log_sum_exp;
  const float* means;  // [B, heads, T]: out . d_out, which is the sum over j of P dP
  T* d_qkv;
};

// For heads whose every row is of whole 16 bytes and starts at a multiple of 16.
// attention_forward.cu, attention_backward.cu.
absl::Status ForwardOnTensorCores(Lane& lane, const ForwardArguments<__nv_bfloat16>& arguments);
absl::Status BackwardOnTensorCores(Lane& lane, const BackwardArguments<__nv_bfloat16>& arguments);

// For any, slower; T is float or __nv_bfloat16. attention_general.cu.
template <typename T>
absl::Status ForwardInGeneral(Lane& lane, const ForwardArguments<T>& arguments);
template <typename T>
absl::Status BackwardInGeneral(Lane& lane, const BackwardArguments<T>& arguments);

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_ATTENTION_ARGUMENTS_H_
