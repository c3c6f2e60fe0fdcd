#ifndef TESSERA_KERNELS_CUDA_ATTENTION_TILES_H_
#define TESSERA_KERNELS_CUDA_ATTENTION_TILES_H_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/attention_arguments.h"
#include "kernels/cuda/tensor_core.h"

namespace tessera::kernels::cuda {

// Tiles of bf16 in shared memory, and what warps do with them on tensor cores.
//
// A tile's rows are 16 bytes longer than their elements, so that the same columns of
// eight rows, which one matrix load reads, lie in different banks.
constexpr int TileStride(int columns) { return columns + 8; }
constexpr int TileElements(int rows, int columns) { return rows * TileStride(columns); }

// Starts copies of rows from `first_row` on into a tile; zero where the head has no such
// row or column. All threads of the block take part. Rows are of whole 16 bytes.
template <int kRows, int kColumns, int kThreads>
__device__ void LoadTile(__nv_bfloat16* tile, const HeadRows<const __nv_bfloat16>& head,
                         int first_row) {
  constexpr int kPieces = kColumns / 8;
  static_assert(kRows * kPieces % kThreads == 0 && kThreads % kPieces == 0);
  const int column = static_cast<int>(threadIdx.x) % kPieces * 8;
  const int row = first_row + static_cast<int>(threadIdx.x) / kPieces;
  const __nv_bfloat16* from = head.Row(row) + column;
  __nv_bfloat16* to = tile + (row - first_row) * TileStride(kColumns) + column;
#pragma unroll
  for (int i = 0; i < kRows; i += kThreads / kPieces) {
    const bool inside = row + i < head.length && column < head.columns;
    CopyAsync16(to + i * TileStride(kColumns), from, inside ? 16 : 0);
    from += int64_t{kThreads / kPieces} * head.stride;
  }
}

// Rounds a warp's accumulators, times factor(m, half) for rows m * 16 + half * 8 + 0..7,
// into rows of `tile` that only this warp reads, and from there, in whole pieces of 16
// bytes, to a head's rows from `first_row` on.
template <int kRowTiles, int kColumns, typename Factor>
__device__ void StoreRows(const Accumulator (&values)[kRowTiles][kColumns / 8],
                          const Factor& factor, __nv_bfloat16* tile,
                          const HeadRows<__nv_bfloat16>& head, int first_row) {
  const int lane = threadIdx.x % 32;
  __syncwarp();  // all lanes are done with what is in the tile
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float scale = factor(m, half);
      __nv_bfloat16* row = tile + (m * 16 + half * 8 + lane / 4) * TileStride(kColumns);
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        *reinterpret_cast<__nv_bfloat162*>(row + n * 8 + lane % 4 * 2) = __floats2bfloat162_rn(
            values[m][n].values[2 * half] * scale, values[m][n].values[2 * half + 1] * scale);
      }
    }
  }
  __syncwarp();
  constexpr int kPieces = kColumns / 8;
#pragma unroll 1
  for (int i = lane; i < kRowTiles * 16 * kPieces; i += 32) {
    const int row = i / kPieces;
    const int column = i % kPieces * 8;
    if (first_row + row >= head.length || column >= head.columns) continue;
    *reinterpret_cast<uint4*>(head.Row(first_row + row) + column) =
        *reinterpret_cast<const uint4*>(tile + row * TileStride(kColumns) + column);
  }
}

// c = a b^T for the warp's rows of tile a (from `a` on) and all rows of tile b; both
// have kDepth columns.
template <int kRowTiles, int kColumnTiles, int kDepth>
__device__ void MultiplyTransposed(Accumulator (&c)[kRowTiles][kColumnTiles],
                                   const __nv_bfloat16* a, const __nv_bfloat16* b) {
  constexpr int kStride = TileStride(kDepth);
  const int lane = threadIdx.x % 32;
  a += lane % 16 * kStride + lane / 16 * 8;
  b += (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) c[m][n] = Accumulator{};
  }
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    FragmentA rows[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) LoadMatrix4(rows[m].registers, a + m * 16 * kStride + k);
#pragma unroll
    for (int n = 0; n < kColumnTiles; n += 2) {
      uint32_t columns[4];
      LoadMatrix4(columns, b + n * 8 * kStride + k);
      const FragmentB left{{columns[0], columns[1]}};
      const FragmentB right{{columns[2], columns[3]}};
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        MultiplyAccumulate(c[m][n], rows[m], left, c[m][n]);
        MultiplyAccumulate(c[m][n + 1], rows[m], right, c[m][n + 1]);
      }
    }
  }
}

// c += a b for 16 columns of a, in registers, and 16 rows of tile b, from `b` on.
template <int kRowTiles, int kColumnTiles>
__device__ void MultiplyAdd(Accumulator (&c)[kRowTiles][kColumnTiles],
                            const FragmentA (&a)[kRowTiles], const __nv_bfloat16* b) {
  const int lane = threadIdx.x % 32;
  b += lane % 16 * TileStride(kColumnTiles * 8) + lane / 16 * 8;
#pragma unroll
  for (int n = 0; n < kColumnTiles; n += 2) {
    uint32_t columns[4];
    LoadMatrix4Transposed(columns, b + n * 8);
    const FragmentB left{{columns[0], columns[1]}};
    const FragmentB right{{columns[2], columns[3]}};
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      MultiplyAccumulate(c[m][n], a[m], left, c[m][n]);
      MultiplyAccumulate(c[m][n + 1], a[m], right, c[m][n + 1]);
    }
  }
}

__device__ inline uint32_t PackBFloat16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ inline float UnpackBFloat16(uint32_t pair, int index) {
  return __uint_as_float(index == 0 ? pair << 16 : pair & 0xffff0000u);
}

// Accumulators of two neighbouring column tiles, rounded, are the left operand of a
// product over these 16 columns: each lane holds the same elements of both.
__device__ inline FragmentA RoundToFragment(const Accumulator& left, const Accumulator& right) {
  return {{PackBFloat16(left.values[0], left.values[1]),
           PackBFloat16(left.values[2], left.values[3]),
           PackBFloat16(right.values[0], right.values[1]),
           PackBFloat16(right.values[2], right.values[3])}};
}

// Elements whose sign is set become zero.
__device__ inline FragmentA KeepPositive(const FragmentA& fragment) {
  FragmentA kept;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t pair = fragment.registers[i];
    const uint32_t low = (pair & 0x8000u) != 0 ? 0u : pair & 0xffffu;
    const uint32_t high = (pair & 0x80000000u) != 0 ? 0u : pair & 0xffff0000u;
    kept.registers[i] = high | low;
  }
  return kept;
}

// Element `e` of the accumulator of a 16 x 8 tile is this lane's row and column.
__device__ inline int RowOf(int e) { return threadIdx.x % 32 / 4 + e / 2 * 8; }
__device__ inline int ColumnOf(int e) { return threadIdx.x % 4 * 2 + e % 2; }

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_ATTENTION_TILES_H_
