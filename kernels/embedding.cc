#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/cuda/workspace.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(EmbeddingForward);
TESSERA_DECLARE_BACKENDS(EmbeddingBackward);
TESSERA_DECLARE_BACKENDS(EmbeddingBackwardWorkspace);

int64_t EmbeddingBackwardWorkspace(int64_t vocabulary, int64_t tokens) {
  return std::max(cpu::EmbeddingBackwardWorkspace(vocabulary, tokens),
                  RoundUpToAlignment(cuda::EmbeddingBackwardWorkspaceBytes(vocabulary, tokens)));
}

absl::Status EmbeddingForward(Lane& lane, const Tensor& tokens, const Tensor& token_table,
                              const Tensor& position_table, const Tensor& out) {
  TESSERA_DISPATCH(EmbeddingForward, lane, tokens, token_table, position_table, out);
}

absl::Status EmbeddingBackward(Lane& lane, const Tensor& tokens, const Tensor& d_out,
                               const Tensor& d_token_table, const Tensor& d_position_table,
                               std::byte* workspace) {
  TESSERA_DISPATCH(EmbeddingBackward, lane, tokens, d_out, d_token_table, d_position_table,
                   workspace);
}

}  // namespace tessera::kernels
