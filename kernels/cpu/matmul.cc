#include "kernels/matmul.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "core/status.h"
#include "kernels/cpu/gemm.h"
#include "kernels/matmul_shape.h"

namespace tessera::kernels::cpu {
namespace {

std::byte* At(const Tensor& tensor, int64_t element) {
  return static_cast<std::byte*>(tensor.data) + element * SizeOf(tensor.dtype);
}

// The output is cut into equal tiles, with smaller ones at the ends. Measured on
// the shapes of GPT-2; only shapes and types may decide, never threads.
struct Tiling {
  Tiling(int64_t m, int64_t n, int64_t k, DType dtype, bool a_is_transposed, bool b_is_transposed)
      : rows(std::min<int64_t>(m, 256)), columns(n) {
    // Waking a thread costs as much as a small product.
    const bool is_small = m * n * k < int64_t{1} << 23;
    if (dtype == DType::kBFloat16 && a_is_transposed && n < kDenseColumns) {
      rows = 128;
      columns = (n + Count(n, 256) - 1) / Count(n, 256);
    } else if (dtype == DType::kBFloat16) {
      // oneDNN is at its best on dense operands, which whole rows leave as they are.
      // Rows of a long b that is stored transposed are dense too.
      if (b_is_transposed && n > 4096) columns = 1024;
      const int64_t count = std::max<int64_t>(Count(m, m >= 16384 ? 512 : 256), 4);
      if (!is_small && columns == n) rows = std::max<int64_t>((m / count + 31) / 32 * 32, 128);
    } else {
      columns = 384;
      // Operands that no cache holds are read once per row or column of tiles.
      if (std::max({m, n, k}) >= 16384) rows = 512;
    }
    rows = std::min(rows, m);
    columns = std::min(columns, n);
    if (is_small || dtype == DType::kBFloat16) return;
    while (Count(m, rows) * Count(n, columns) < 4 && std::max(rows, columns) > 64) {
      int64_t& larger = rows > columns ? rows : columns;
      larger = (larger + 1) / 2;
    }
  }

  static int64_t Count(int64_t extent, int64_t tile) { return (extent + tile - 1) / tile; }

  int64_t rows;
  int64_t columns;
};

void SumOverNothing(const Tensor* bias, const Tensor& c, int64_t m, int64_t n) {
  if (bias == nullptr) {
    std::memset(c.data, 0, static_cast<size_t>(c.bytes()));
    return;
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const float value = bias->dtype == DType::kFloat32
                              ? bias->as<float>()[j]
                              : static_cast<float>(bias->as<BFloat16>()[j]);
      if (c.dtype == DType::kFloat32) {
        c.as<float>()[i * n + j] = value;
      } else {
        c.as<BFloat16>()[i * n + j] = BFloat16(value);
      }
    }
  }
}

// c = op(a) op(b) + bias, or += without a bias.
absl::Status Multiply(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                      Transpose transpose_b, const Tensor* bias, bool accumulate, const Tensor& c) {
  const MatMulShape whole = MatMulShapeOf(a, transpose_a, b, transpose_b, bias, c);
  const int64_t m = whole.m;
  const int64_t n = whole.n;
  const int64_t k = whole.k;
  const bool a_is_transposed = transpose_a == Transpose::kYes;
  const bool b_is_transposed = transpose_b == Transpose::kYes;
  if (m == 0 || n == 0) return absl::OkStatus();
  if (k == 0) {
    if (!accumulate) SumOverNothing(bias, c, m, n);
    return absl::OkStatus();
  }

  const Tiling tiling(m, n, k, a.dtype, a_is_transposed, b_is_transposed);
  const int64_t tile_rows = Tiling::Count(m, tiling.rows);
  const int64_t tile_columns = Tiling::Count(n, tiling.columns);
  const int64_t last_rows = m - (tile_rows - 1) * tiling.rows;
  const int64_t last_columns = n - (tile_columns - 1) * tiling.columns;
  // One product for each of: inner tiles, the last column, the last row, the corner.
  std::array<std::array<const Gemm*, 2>, 2> products{};
  for (const bool is_last_row : {false, true}) {
    for (const bool is_last_column : {false, true}) {
      if ((!is_last_row && tile_rows == 1) || (!is_last_column && tile_columns == 1)) continue;
      const GemmShape shape = {.m = is_last_row ? last_rows : tiling.rows,
                               .n = is_last_column ? last_columns : tiling.columns,
                               .k = k,
                               .a_stride = MatrixColumns(a),
                               .b_stride = MatrixColumns(b),
                               .c_stride = n,
                               .transpose_a = transpose_a,
                               .transpose_b = transpose_b,
                               .input = a.dtype,
                               .output = c.dtype,
                               .bias = bias != nullptr,
                               .accumulate = accumulate};
      TESSERA_ASSIGN_OR_RETURN(products[is_last_row][is_last_column], Gemm::Get(shape));
    }
  }
  lane.pool().For(tile_rows * tile_columns, [&](int64_t tile) {
    // Neighbouring tiles share their part of b.
    const int64_t row = tile % tile_rows;
    const int64_t column = tile / tile_rows;
    const int64_t i = row * tiling.rows;
    const int64_t j = column * tiling.columns;
    products[row == tile_rows - 1][column == tile_columns - 1]->Run(
        At(a, a_is_transposed ? i : i * k), At(b, b_is_transposed ? j * k : j),
        bias == nullptr ? nullptr : At(*bias, j), At(c, i * n + j));
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status MatMul(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                    Transpose transpose_b, const Tensor* bias, const Tensor& c) {
  return Multiply(lane, a, transpose_a, b, transpose_b, bias, /*accumulate=*/false, c);
}

absl::Status MatMulAdd(Lane& lane, const Tensor& a, Transpose transpose_a, const Tensor& b,
                       Transpose transpose_b, const Tensor& c) {
  return Multiply(lane, a, transpose_a, b, transpose_b, nullptr, /*accumulate=*/true, c);
}

}  // namespace tessera::kernels::cpu
