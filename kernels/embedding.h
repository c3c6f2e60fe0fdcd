#ifndef TESSERA_KERNELS_EMBEDDING_H_
#define TESSERA_KERNELS_EMBEDDING_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// out[b, t, :] = token_table[tokens[b, t], :] + position_table[t, :], rounded once.
// tokens int32 [sequences, length], token_table [vocabulary, width],
// position_table [context, width] with context >= length, out [sequences, length,
// width]. OutOfRange for a token that is not in the vocabulary; on a GPU it counts as
// token 0, and the device's Join has the error.
absl::Status EmbeddingForward(Lane& lane, const Tensor& tokens, const Tensor& token_table,
                              const Tensor& position_table, const Tensor& out);

// Bytes of workspace for EmbeddingBackward of that many tokens, 64-aligned.
int64_t EmbeddingBackwardWorkspace(int64_t vocabulary, int64_t tokens);

// The tables' gradients, fp32 or bf16, written in full: a row that no token chose,
// and a position beyond the length, gets zeros. A row's contributions are added in
// the order of the tokens, in fp32, and rounded once.
absl::Status EmbeddingBackward(Lane& lane, const Tensor& tokens, const Tensor& d_out,
                               const Tensor& d_token_table, const Tensor& d_position_table,
                               std::byte* workspace);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_EMBEDDING_H_
