#ifndef TESSERA_KERNELS_ATTENTION_H_
#define TESSERA_KERNELS_ATTENTION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/philox.h"
#include "core/tensor.h"

namespace tessera::kernels {

// Causal multi-head attention. A row of qkv [B, T, (heads + 2 kv_heads) d] is q | k | v:
// `heads` heads of queries, then `kv_heads` of keys and as many of values, each d wide. As
// many heads of queries as heads / kv_heads, a whole number, share the first head of keys
// and values, as many the second, and so on (kv_heads = heads: one each). For one head,
//   P = softmax of q k^T / sqrt(d) over the keys j <= i,   out = D(P) v,
// where D drops an element with `dropout_probability` and divides the others by
// the probability to stay; element (b, h, i, j) of P is element
// ((b * heads + h) * T + i) * T + j of `key`. Heads stand side by side in out
// [B, T, heads * d]. log_sum_exp, fp32 [B, heads, T], gets ln of the softmax's
// denominators, for the backward; its data may be null.
//
// qkv and out are fp32 or bf16, sums are fp32, and P is rounded to the dtype where matrix
// instructions need that. Nothing of size T x T is stored: on the CPU scratch is a few
// blocks of 128 x T per thread. Errors are those of MatMul; on a GPU also Unimplemented,
// for d > 256. Fast there are bf16 and d a multiple of 8, at best 64 or 128.
absl::Status AttentionForward(Lane& lane, const Tensor& qkv, int64_t heads, int64_t kv_heads,
                              float dropout_probability, const RandomKey& key, const Tensor& out,
                              const Tensor& log_sum_exp);

// Bytes of workspace for AttentionBackward, 64-aligned.
int64_t AttentionBackwardWorkspace(int64_t batch, int64_t heads, int64_t length);

// The gradient of qkv from that of out, the rest as the forward had and left it.
absl::Status AttentionBackward(Lane& lane, const Tensor& qkv, const Tensor& out,
                               const Tensor& log_sum_exp, const Tensor& d_out, int64_t heads,
                               int64_t kv_heads, float dropout_probability, const RandomKey& key,
                               const Tensor& d_qkv, std::byte* workspace);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_ATTENTION_H_
