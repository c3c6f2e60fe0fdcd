#include "kernels/attention.h"

#include <algorithm>

#include "core/status.h"
#include "kernels/attention_shape.h"
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
  const AttentionShape shape = AttentionShapeOf(qkv, heads, kv_heads, dropout_probability);
  TESSERA_CHECK(out.dtype == qkv.dtype, "dtype of out");
  TESSERA_CHECK(out.elements() == shape.batch * shape.length * shape.OutWidth(), "shape of out");
  if (qkv.elements() == 0) return absl::OkStatus();
  TESSERA_DISPATCH(AttentionForward, lane, qkv, heads, kv_heads, dropout_probability, key, out,
                   log_sum_exp);
}

absl::Status AttentionBackward(Lane& lane, const Tensor& qkv, const Tensor& out,
                               const Tensor& log_sum_exp, const Tensor& d_out, int64_t heads,
                               int64_t kv_heads, float dropout_probability, const RandomKey& key,
                               const Tensor& d_qkv, std::byte* workspace) {
  TESSERA_CHECK(d_qkv.dtype == qkv.dtype && d_qkv.shape == qkv.shape, "d_qkv");
  TESSERA_CHECK(d_out.dtype == qkv.dtype && d_out.shape == out.shape, "d_out");
  if (qkv.elements() == 0) return absl::OkStatus();
  TESSERA_DISPATCH(AttentionBackward, lane, qkv, out, log_sum_exp, d_out, heads, kv_heads,
                   dropout_probability, key, d_qkv, workspace);
}

}  // namespace tessera::kernels
