#include "kernels/embedding.h"

#include <algorithm>

#include "core/status.h"
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

namespace {

// Of both directions: tables and an output for the tokens.
void CheckShapes(const Tensor& tokens, const Tensor& token_table, const Tensor& position_table,
                 const Tensor& out) {
  const int64_t width = token_table.shape[1];
  TESSERA_CHECK(position_table.shape[0] >= tokens.shape[1] && position_table.shape[1] == width,
                "positions do not fit");
  TESSERA_CHECK(out.elements() == tokens.elements() * width, "tensors differ in size");
}

}  // namespace

absl::Status EmbeddingForward(Lane& lane, const Tensor& tokens, const Tensor& token_table,
                              const Tensor& position_table, const Tensor& out) {
  CheckShapes(tokens, token_table, position_table, out);
  TESSERA_DISPATCH(EmbeddingForward, lane, tokens, token_table, position_table, out);
}

absl::Status EmbeddingBackward(Lane& lane, const Tensor& tokens, const Tensor& d_out,
                               const Tensor& d_token_table, const Tensor& d_position_table,
                               std::byte* workspace) {
  CheckShapes(tokens, d_token_table, d_position_table, d_out);
  TESSERA_DISPATCH(EmbeddingBackward, lane, tokens, d_out, d_token_table, d_position_table,
                   workspace);
}

}  // namespace tessera::kernels
