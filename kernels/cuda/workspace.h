#ifndef TESSERA_KERNELS_CUDA_WORKSPACE_H_
#define TESSERA_KERNELS_CUDA_WORKSPACE_H_

#include <cstdint>

// Bytes of workspace that the kernels for CUDA need, and how they cut rows, which
// is what that follows from. Known to builds without CUDA too, since a plan is the
// same for every backend.
namespace tessera::kernels::cuda {

constexpr int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows whose contributions to a column's sum one block adds, in order.
inline constexpr int64_t kColumnSumRows = 64;
inline constexpr int64_t kNormalizationRows = 16;

// An fp32 sum of every column for every chunk of rows.
constexpr int64_t ColumnSumWorkspaceBytes(int64_t rows, int64_t columns) {
  return CeilDivide(rows, kColumnSumRows) * columns * 4;
}

// The same, for as many gradients as the normalisation has parameters: two for
// LayerNorm, one for RMSNorm.
constexpr int64_t NormalizationBackwardWorkspaceBytes(int64_t rows, int64_t width, int parameters) {
  return CeilDivide(rows, kNormalizationRows) * parameters * width * 4;
}

// int32: where every token's list of positions begins, and the lists, twice.
constexpr int64_t EmbeddingBackwardWorkspaceBytes(int64_t vocabulary, int64_t tokens) {
  return (vocabulary + 1 + 2 * tokens) * 4;
}

// The fp32 products out . d_out.
constexpr int64_t AttentionBackwardWorkspaceBytes(int64_t batch, int64_t heads, int64_t length) {
  return batch * heads * length * 4;
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_WORKSPACE_H_
