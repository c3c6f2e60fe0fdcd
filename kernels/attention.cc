#include "kernels/attention.h"

#include <algorithm>

#include "kernels/cuda/workspace.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(AttentionForward);
TESSERA_DECLARE_BACKENDS(AttentionBackward);
TESSERA_DECLARE_BACKENDS(AttentionBackwardWorkspace);

int64_t AttentionBackwardWorkspace(int64_t batch, int64_t heads, int64_t length) {
  return std::max(cpu::AttentionBackwardWorkspace(batch, heads, length),
                  RoundUpToAlignment(cuda::AttentionBackwardWorkspaceBytes(batch, heads, length)));
}

absl::Status AttentionForward(Lane& lane, const Tensor& qkv, int64_t heads, int64_t kv_heads,
                              float dropout_probability, const RandomKey& key, const Tensor& out,
                              const Tensor& log_sum_exp) {
  TESSERA_DISPATCH(AttentionForward, lane, qkv, heads, kv_heads, dropout_probability, key, out,
                   log_sum_exp);
}

absl::Status AttentionBackward(Lane& lane, const Tensor& qkv, const Tensor& out,
                               const Tensor& log_sum_exp, const Tensor& d_out, int64_t heads,
                               int64_t kv_heads, float dropout_probability, const RandomKey& key,
                               const Tensor& d_qkv, std::byte* workspace) {
  TESSERA_DISPATCH(AttentionBackward, lane, qkv, out, log_sum_exp, d_out, heads, kv_heads,
                   dropout_probability, key, d_qkv, workspace);
}

}  // namespace tessera::kernels
