#include <cmath>
#include <cstdint>

#include "core/status.h"
#include "kernels/cuda/attention_arguments.h"
#include "kernels/cuda/attention_dropout.h"
#include "kernels/cuda/attention_launch.h"
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/launch.h"

namespace tessera::kernels::cuda {
namespace {

// A block of threads takes kQueries queries of a head and visits their keys a tile at
// a time, with the softmax's running maximum and sum (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018; Dao, "FlashAttention-2", 2023). Each warp
// has queries of its own: their part of out stays in registers, which bounds them.
template <int kHeadSize>
struct Tiles {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * 32;
  // Blocks of a multiprocessor. Dropout takes registers, too.
  static constexpr int Resident(bool dropout) { return kHeadSize <= 32 && !dropout ? 3 : 2; }
  static constexpr int kRowTiles = kHeadSize <= 128 ? 2 : 1;  // of 16 queries, a warp
  static constexpr int kWarpQueries = kRowTiles * 16;
  static constexpr int kQueries = kWarps * kWarpQueries;
  static constexpr int kKeys = 64;
  static constexpr int64_t kSharedBytes =
      TileElements(kQueries + 2 * kKeys, kHeadSize) * sizeof(__nv_bfloat16) +
      kQueries * kKeys / 32 * sizeof(uint32_t);
};

// The softmax of the two rows of a 16-row tile that a lane has elements of. Scores come
// unscaled; powers are of two, so `scale` has a factor log2(e).
struct OnlineSoftmax {
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};  // of this lane's elements

  // Turns scores into exp(score - largest so far), and scales what was summed before
  // to the new maximum. Every row must see a key of its first tile.
  template <int kColumnTiles, int kOutTiles>
  __device__ void Update(Accumulator (&scores)[kColumnTiles], Accumulator (&out)[kOutTiles],
                         float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = largest[half];
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        maximum = fmaxf(maximum, scores[n].values[2 * half]);
        maximum = fmaxf(maximum, scores[n].values[2 * half + 1]);
      }
      maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, 1));
      maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, 2));
      const float correction = exp2f((largest[half] - maximum) * scale);
      const float offset = -maximum * scale;
      largest[half] = maximum;
      float total = sum[half] * correction;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[n].values[e] = exp2f(fmaf(scores[n].values[e], scale, offset));
          total += scores[n].values[e];
        }
      }
      sum[half] = total;
#pragma unroll
      for (int n = 0; n < kOutTiles; ++n) {
        out[n].values[2 * half] *= correction;
        out[n].values[2 * half + 1] *= correction;
      }
    }
  }

  // After the last tile: sums of whole rows.
  __device__ void Finish() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 1);
      sum[half] += __shfl_xor_sync(0xffffffffu, sum[half], 2);
    }
  }
};

template <int kHeadSize, bool kDropout>
__global__ void __launch_bounds__(Tiles<kHeadSize>::kThreads, Tiles<kHeadSize>::Resident(kDropout))
    ForwardKernel(const ForwardArguments<__nv_bfloat16> arguments, float kept_factor) {
  using T = Tiles<kHeadSize>;
  constexpr int kRowTiles = T::kRowTiles;
  constexpr int kKeyTiles = T::kKeys / 8;
  const AttentionInputs<__nv_bfloat16>& inputs = arguments.inputs;
  TESSERA_DYNAMIC_SHARED(__nv_bfloat16, shared);
  __nv_bfloat16* const queries = shared;
  __nv_bfloat16* const keys = queries + TileElements(T::kQueries, kHeadSize);
  __nv_bfloat16* const values = keys + TileElements(T::kKeys, kHeadSize);
  uint32_t* const kept = reinterpret_cast<uint32_t*>(values + TileElements(T::kKeys, kHeadSize));

  const int head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int kv_head = head / static_cast<int>(inputs.shape.Group());
  const auto key_rows = inputs.Key(inputs.qkv, sequence, kv_head);
  const auto value_rows = inputs.Value(inputs.qkv, sequence, kv_head);
  const int length = key_rows.length;
  // Blocks start in order, so the last queries, which see the most keys, go first.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * T::kQueries;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * T::kWarpQueries;
  const int warp_query = first_query + warp_row;
  const int seen = min(first_query + T::kQueries, length);
  const float scale = inputs.scale * 1.44269504f;

  LoadTile<T::kQueries, kHeadSize, T::kThreads>(queries, inputs.Query(inputs.qkv, sequence, head),
                                                first_query);
  LoadTile<T::kKeys, kHeadSize, T::kThreads>(keys, key_rows, 0);
  CommitCopies();
  Accumulator out[kRowTiles][kHeadSize / 8] = {};
  OnlineSoftmax softmax[kRowTiles];
  for (int first_key = 0; first_key < seen; first_key += T::kKeys) {
    // Values are on their way while keys are used, and the next keys while values are.
    WaitForCopies<0>();
    __syncthreads();
    LoadTile<T::kKeys, kHeadSize, T::kThreads>(values, value_rows, first_key);
    CommitCopies();
    if constexpr (kDropout) {
      FillKept<T::kQueries, T::kKeys, T::kThreads>(kept, inputs, sequence, head, first_query,
                                                   first_key);
    }
    const bool active = warp_query < length && first_key < warp_query + T::kWarpQueries;
    Accumulator scores[kRowTiles][kKeyTiles];
    if (active) {
      MultiplyTransposed<kRowTiles, kKeyTiles, kHeadSize>(
          scores, queries + warp_row * TileStride(kHeadSize), keys);
    }
    WaitForCopies<0>();
    __syncthreads();
    if (first_key + T::kKeys < seen) {
      LoadTile<T::kKeys, kHeadSize, T::kThreads>(keys, key_rows, first_key + T::kKeys);
      CommitCopies();
    }
    if (!active) continue;
    const bool all_visible = first_key + T::kKeys - 1 <= warp_query;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      if (!all_visible) {
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const bool visible = first_key + n * 8 + ColumnOf(e) <= warp_query + m * 16 + RowOf(e);
            if (!visible) scores[m][n].values[e] = -INFINITY;
          }
        }
      }
      softmax[m].Update(scores[m], out[m], scale);
      if constexpr (kDropout) {
#pragma unroll
        for (int word = 0; word < T::kKeys / 32; ++word) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const uint32_t bits =
                kept[(warp_row + m * 16 + RowOf(e)) * (T::kKeys / 32) + word] >> ColumnOf(e);
#pragma unroll
            for (int n = 0; n < 4; ++n) {
              if ((bits >> n * 8 & 1) == 0) scores[m][word * 4 + n].values[e] = 0.0f;
            }
          }
        }
      }
    }
#pragma unroll
    for (int k = 0; k < T::kKeys / 16; ++k) {
      FragmentA p[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        p[m] = RoundToFragment(scores[m][2 * k], scores[m][2 * k + 1]);
      }
      MultiplyAdd(out, p, values + TileElements(k * 16, kHeadSize));
    }
  }

#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
    softmax[m].Finish();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = warp_query + m * 16 + RowOf(2 * half);
      if (arguments.log_sum_exp != nullptr && threadIdx.x % 4 == 0 && query < length) {
        arguments.log_sum_exp[inputs.Scalar(sequence, head, query)] =
            fmaf(softmax[m].largest[half], inputs.scale, logf(softmax[m].sum[half]));
      }
    }
  }
  // A warp's queries are of no use any more, not even to itself.
  StoreRows<kRowTiles, kHeadSize>(
      out, [&](int m, int half) { return kept_factor / softmax[m].sum[half]; },
      queries + warp_row * TileStride(kHeadSize), inputs.Out(arguments.out, sequence, head),
      warp_query);
}

}  // namespace

absl::Status ForwardOnTensorCores(Lane& lane, const ForwardArguments<__nv_bfloat16>& arguments) {
  const AttentionShape& shape = arguments.inputs.shape;
  return ForHeadSize(shape.head_size, [&](auto head_size) {
    constexpr int kHeadSize = decltype(head_size)::value;
    using T = Tiles<kHeadSize>;
    const dim3 grid = GridOf(shape, shape.heads, T::kQueries);
    if (arguments.inputs.dropout_probability > 0) {
      return TESSERA_LAUNCH(lane, (ForwardKernel<kHeadSize, true>), grid, T::kThreads,
                            T::kSharedBytes, arguments, arguments.inputs.Kept());
    }
    return TESSERA_LAUNCH(lane, (ForwardKernel<kHeadSize, false>), grid, T::kThreads,
                          T::kSharedBytes, arguments, 1.0f);
  });
}

}  // namespace tessera::kernels::cuda
