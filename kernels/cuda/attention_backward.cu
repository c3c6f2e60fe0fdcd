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

// With P = exp(scale q k^T - log_sum_exp), F the factors of dropout and dP = d_out v^T:
//   dS = P (F dP - out . d_out),   dv = (F P)^T d_out,   dk = scale dS^T q,   dq = scale dS k
// (Dao et al., "FlashAttention", 2022, appendix B.2). One kernel has a tile of keys per
// block and adds up over queries, the other a tile of queries, and adds up over keys:
// P is computed twice, and every sum has one owner and one order.
using Inputs = AttentionInputs<__nv_bfloat16>;
using Arguments = BackwardArguments<__nv_bfloat16>;

constexpr float kLog2E = 1.44269504f;
constexpr int kStages = 2;  // one tile is used while the next is on its way

template <int kHeadSize>
struct KeyTiles {
  // Two warps, one of each role, have the same keys.
  static constexpr int kPairs = 4;
  static constexpr int kThreads = 2 * kPairs * 32;
  static constexpr int kRowTiles = kHeadSize <= 128 ? 2 : 1;  // of 16 keys, a pair
  static constexpr int kPairKeys = kRowTiles * 16;
  static constexpr int kKeys = kPairs * kPairKeys;
  static constexpr int kQueries = kHeadSize <= 128 ? 64 : 32;
  static constexpr int kExchanged = kRowTiles * kQueries / 16;  // fragments, a lane
  static constexpr int64_t kSharedBytes =
      TileElements(2 * kKeys + 2 * kStages * kQueries, kHeadSize) * sizeof(__nv_bfloat16) +
      kPairs * kExchanged * 32 * sizeof(uint4) + kStages * 2 * kQueries * sizeof(float) +
      kQueries * kKeys / 32 * sizeof(uint32_t);
};

// dS of an element, but for the scale. A dropped element's P comes with its sign set.
template <bool kDropout>
__device__ float ScoreGradient(float p, float d_probability, float kept_factor, float mean) {
  if constexpr (kDropout) {
    return fabsf(p) * fmaf(d_probability, std::signbit(p) ? 0.0f : kept_factor, -mean);
  }
  return p * (d_probability - mean);
}

// dk and dv of kKeys keys, in the transpose: rows are keys. A pair's first warp makes P
// and then dv, the second dP, dS (of which it gets P from the first) and then dk. So
// each has one sum in registers, and both do the same products on different tiles.
template <int kHeadSize, bool kDropout>
__global__ void __launch_bounds__(KeyTiles<kHeadSize>::kThreads)
    KeyGradientKernel(const Arguments arguments, float kept_factor) {
  using T = KeyTiles<kHeadSize>;
  constexpr int kRowTiles = T::kRowTiles;
  constexpr int kQueryTiles = T::kQueries / 8;
  constexpr int kTile = TileElements(T::kQueries, kHeadSize);
  const Inputs& inputs = arguments.inputs;
  TESSERA_DYNAMIC_SHARED(__nv_bfloat16, shared);
  __nv_bfloat16* const keys = shared;
  __nv_bfloat16* const values = keys + TileElements(T::kKeys, kHeadSize);
  __nv_bfloat16* const queries = values + TileElements(T::kKeys, kHeadSize);  // [kStages]
  __nv_bfloat16* const d_outs = queries + kStages * kTile;                    // [kStages]
  uint4* const exchange = reinterpret_cast<uint4*>(d_outs + kStages * kTile);
  float* const scalars =  // [kStages][2][kQueries]: minus the log-sum-exp, in bits; the mean
      reinterpret_cast<float*>(exchange + T::kPairs * T::kExchanged * 32);
  uint32_t* const kept = reinterpret_cast<uint32_t*>(scalars + kStages * 2 * T::kQueries);

  const int kv_head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int group = static_cast<int>(inputs.shape.Group());
  const int length = static_cast<int>(inputs.shape.length);
  const int thread = static_cast<int>(threadIdx.x);
  const int first_key = static_cast<int>(blockIdx.x) * T::kKeys;
  const int pair = thread / 32 % T::kPairs;
  const bool makes_values = thread / 32 < T::kPairs;
  const int pair_row = pair * T::kPairKeys;
  const int pair_key = first_key + pair_row;
  const float scale = inputs.scale * kLog2E;

  // A step is for one tile of queries of one head: all that see these keys, head after
  // head of those that share them.
  int remaining = group * ((length - first_key + T::kQueries - 1) / T::kQueries);
  int first_query = first_key;
  int next_head = kv_head * group;
  int next_query = first_query;
  const auto advance = [&] {
    next_query += T::kQueries;
    if (next_query >= length) {
      next_query = first_key;
      ++next_head;
    }
  };
  const auto load = [&](int stage) {
    LoadTile<T::kQueries, kHeadSize, T::kThreads>(
        queries + stage * kTile, inputs.Query(inputs.qkv, sequence, next_head), next_query);
    LoadTile<T::kQueries, kHeadSize, T::kThreads>(
        d_outs + stage * kTile, inputs.Out(arguments.d_out, sequence, next_head), next_query);
  };
  // The thread's one of a step's scalars. A query that is not there gets P = 0.
  const auto load_scalar = [&] {
    const int query = next_query + thread % T::kQueries;
    const int64_t at = inputs.Scalar(sequence, next_head, query);
    if (thread < T::kQueries) {
      return query < length ? -kLog2E * arguments.log_sum_exp[at] : -INFINITY;
    }
    return thread < 2 * T::kQueries && query < length ? arguments.means[at] : 0.0f;
  };
  const auto store_scalar = [&](int stage, float scalar) {
    if (thread < 2 * T::kQueries) scalars[stage * 2 * T::kQueries + thread] = scalar;
  };
  const auto fill_kept = [&] {
    if constexpr (kDropout) {
      FillKept<T::kQueries, T::kKeys, T::kThreads>(kept, inputs, sequence, next_head, next_query,
                                                   first_key);
    }
  };

  LoadTile<T::kKeys, kHeadSize, T::kThreads>(keys, inputs.Key(inputs.qkv, sequence, kv_head),
                                             first_key);
  LoadTile<T::kKeys, kHeadSize, T::kThreads>(values, inputs.Value(inputs.qkv, sequence, kv_head),
                                             first_key);
  load(0);
  CommitCopies();
  store_scalar(0, load_scalar());
  fill_kept();
  Accumulator gradient[kRowTiles][kHeadSize / 8] = {};
  __nv_bfloat16* const own = (makes_values ? keys : values) + pair_row * TileStride(kHeadSize);
  uint4* const exchanged = exchange + pair * T::kExchanged * 32 + thread % 32;
  for (int stage = 0; remaining > 0; stage ^= 1) {
    const __nv_bfloat16* const first_factor = (makes_values ? queries : d_outs) + stage * kTile;
    const __nv_bfloat16* const second_factor = (makes_values ? d_outs : queries) + stage * kTile;
    const float* const minus_log_sum_exp = scalars + stage * 2 * T::kQueries;
    const float* const means = minus_log_sum_exp + T::kQueries;
    advance();
    --remaining;
    WaitForCopies<0>();
    __syncthreads();
    if (remaining > 0) {
      load(stage ^ 1);
      CommitCopies();
    }
    const bool active = pair_key < length && pair_key < first_query + T::kQueries;
    Accumulator products[kRowTiles][kQueryTiles];
    if (active) {
      MultiplyTransposed<kRowTiles, kQueryTiles, kHeadSize>(products, own, first_factor);
    }
    if (active && makes_values) {
      const bool all_visible = pair_key + T::kPairKeys - 1 <= first_query;
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
        for (int n = 0; n < kQueryTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int column = n * 8 + ColumnOf(e);
            const int row = m * 16 + RowOf(e);
            float p = exp2f(fmaf(products[m][n].values[e], scale, minus_log_sum_exp[column]));
            if (!all_visible && pair_key + row > first_query + column) p = 0.0f;
            if constexpr (kDropout) {
              // The other warp needs P of what is dropped too, and which that is.
              const int kept_row = pair_row + row;
              const uint32_t bits = kept[column * (T::kKeys / 32) + kept_row / 32];
              if ((bits >> kept_row % 32 & 1) == 0) p = -p;
            }
            products[m][n].values[e] = p;
          }
        }
#pragma unroll
        for (int k = 0; k < T::kQueries / 16; ++k) {
          const FragmentA p = RoundToFragment(products[m][2 * k], products[m][2 * k + 1]);
          exchanged[(m * (T::kQueries / 16) + k) * 32] =
              make_uint4(p.registers[0], p.registers[1], p.registers[2], p.registers[3]);
        }
      }
    }
    __syncthreads();
    const float next_scalar = remaining > 0 ? load_scalar() : 0.0f;
    if (active) {
#pragma unroll
      for (int k = 0; k < T::kQueries / 16; ++k) {
        FragmentA weights[kRowTiles];
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          const uint4 words = exchanged[(m * (T::kQueries / 16) + k) * 32];
          const FragmentA p = {{words.x, words.y, words.z, words.w}};
          if (makes_values) {
            weights[m] = kDropout ? KeepPositive(p) : p;
            continue;
          }
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const int n = 2 * k + i / 4;
            const int e = i % 4;
            const float mean = means[n * 8 + ColumnOf(e)];
            float& product = products[m][n].values[e];
            product = ScoreGradient<kDropout>(UnpackBFloat16(p.registers[i / 2], i % 2), product,
                                              kept_factor, mean);
          }
          weights[m] = RoundToFragment(products[m][2 * k], products[m][2 * k + 1]);
        }
        MultiplyAdd(gradient, weights, second_factor + TileElements(k * 16, kHeadSize));
      }
    }
    if (remaining > 0) {
      store_scalar(stage ^ 1, next_scalar);
      fill_kept();
    }
    first_query = next_query;
  }

  // The pair's rows of this tile are read by no one any more.
  const auto rows = makes_values ? inputs.Value(arguments.d_qkv, sequence, kv_head)
                                 : inputs.Key(arguments.d_qkv, sequence, kv_head);
  const float factor = makes_values ? kept_factor : inputs.scale;
  StoreRows<kRowTiles, kHeadSize>(
      gradient, [=](int, int) { return factor; }, own, rows, pair_key);
}

template <int kHeadSize>
struct QueryTiles {
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kResident = kHeadSize <= 32 ? 3 : 2;   // blocks of a multiprocessor
  static constexpr int kRowTiles = kHeadSize <= 128 ? 2 : 1;  // of 16 queries, a warp
  static constexpr int kWarpQueries = kRowTiles * 16;
  static constexpr int kQueries = kWarps * kWarpQueries;
  static constexpr int kKeys = 32;
  static constexpr int64_t kSharedBytes =
      TileElements(2 * kQueries + 2 * kStages * kKeys, kHeadSize) * sizeof(__nv_bfloat16) +
      kStages * kQueries * kKeys / 32 * sizeof(uint32_t);
};

// dq of kQueries queries.
template <int kHeadSize, bool kDropout>
__global__ void __launch_bounds__(QueryTiles<kHeadSize>::kThreads, QueryTiles<kHeadSize>::kResident)
    QueryGradientKernel(const Arguments arguments, float kept_factor) {
  using T = QueryTiles<kHeadSize>;
  constexpr int kRowTiles = T::kRowTiles;
  constexpr int kTile = TileElements(T::kKeys, kHeadSize);
  constexpr int kKeptWords = T::kQueries * T::kKeys / 32;
  const Inputs& inputs = arguments.inputs;
  TESSERA_DYNAMIC_SHARED(__nv_bfloat16, shared);
  __nv_bfloat16* const queries = shared;
  __nv_bfloat16* const d_outs = queries + TileElements(T::kQueries, kHeadSize);
  __nv_bfloat16* const keys = d_outs + TileElements(T::kQueries, kHeadSize);     // [kStages]
  __nv_bfloat16* const values = keys + kStages * kTile;                          // [kStages]
  uint32_t* const kept = reinterpret_cast<uint32_t*>(values + kStages * kTile);  // [kStages]

  const int head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int kv_head = head / static_cast<int>(inputs.shape.Group());
  const int length = static_cast<int>(inputs.shape.length);
  // The last queries, which see the most keys, go first.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * T::kQueries;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * T::kWarpQueries;
  const int warp_query = first_query + warp_row;
  const int steps = (min(first_query + T::kQueries, length) + T::kKeys - 1) / T::kKeys;
  const float scale = inputs.scale * kLog2E;

  const auto load = [&](int step) {
    const int stage = step % kStages;
    LoadTile<T::kKeys, kHeadSize, T::kThreads>(
        keys + stage * kTile, inputs.Key(inputs.qkv, sequence, kv_head), step * T::kKeys);
    LoadTile<T::kKeys, kHeadSize, T::kThreads>(
        values + stage * kTile, inputs.Value(inputs.qkv, sequence, kv_head), step * T::kKeys);
  };
  const auto fill_kept = [&](int step) {
    if constexpr (kDropout) {
      FillKept<T::kQueries, T::kKeys, T::kThreads>(kept + step % kStages * kKeptWords, inputs,
                                                   sequence, head, first_query, step * T::kKeys);
    }
  };

  LoadTile<T::kQueries, kHeadSize, T::kThreads>(queries, inputs.Query(inputs.qkv, sequence, head),
                                                first_query);
  LoadTile<T::kQueries, kHeadSize, T::kThreads>(d_outs, inputs.Out(arguments.d_out, sequence, head),
                                                first_query);
  load(0);
  CommitCopies();
  fill_kept(0);
  float minus_log_sum_exp[kRowTiles][2];
  float mean[kRowTiles][2];
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = warp_query + m * 16 + RowOf(2 * half);
      const int64_t at = inputs.Scalar(sequence, head, query);
      const bool inside = query < length;
      minus_log_sum_exp[m][half] = inside ? -kLog2E * arguments.log_sum_exp[at] : -INFINITY;
      mean[m][half] = inside ? arguments.means[at] : 0.0f;
    }
  }
  Accumulator gradient[kRowTiles][kHeadSize / 8] = {};
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages;
    const int first_key = step * T::kKeys;
    WaitForCopies<0>();
    __syncthreads();
    if (step + 1 < steps) {
      load(step + 1);
      CommitCopies();
      fill_kept(step + 1);
    }
    if (warp_query >= length || first_key >= warp_query + T::kWarpQueries) continue;
    Accumulator p[kRowTiles][T::kKeys / 8];
    MultiplyTransposed<kRowTiles, T::kKeys / 8, kHeadSize>(
        p, queries + warp_row * TileStride(kHeadSize), keys + stage * kTile);
    const bool all_visible = first_key + T::kKeys - 1 <= warp_query;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < T::kKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& element = p[m][n].values[e];
          element = exp2f(fmaf(element, scale, minus_log_sum_exp[m][e / 2]));
          const bool visible = first_key + n * 8 + ColumnOf(e) <= warp_query + m * 16 + RowOf(e);
          if (!all_visible && !visible) element = 0.0f;
          if constexpr (kDropout) {
            const uint32_t bits = kept[stage * kKeptWords + warp_row + m * 16 + RowOf(e)];
            if ((bits >> (n * 8 + ColumnOf(e)) & 1) == 0) element = -element;
          }
        }
      }
    }
    Accumulator d_scores[kRowTiles][T::kKeys / 8];
    MultiplyTransposed<kRowTiles, T::kKeys / 8, kHeadSize>(
        d_scores, d_outs + warp_row * TileStride(kHeadSize), values + stage * kTile);
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < T::kKeys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& element = d_scores[m][n].values[e];
          element =
              ScoreGradient<kDropout>(p[m][n].values[e], element, kept_factor, mean[m][e / 2]);
        }
      }
    }
#pragma unroll
    for (int k = 0; k < T::kKeys / 16; ++k) {
      FragmentA weights[kRowTiles];
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        weights[m] = RoundToFragment(d_scores[m][2 * k], d_scores[m][2 * k + 1]);
      }
      MultiplyAdd(gradient, weights, keys + stage * kTile + TileElements(k * 16, kHeadSize));
    }
  }

  // A warp's queries are of no use any more, not even to itself.
  StoreRows<kRowTiles, kHeadSize>(
      gradient, [&](int, int) { return inputs.scale; }, queries + warp_row * TileStride(kHeadSize),
      inputs.Query(arguments.d_qkv, sequence, head), warp_query);
}

template <int kHeadSize, bool kDropout>
absl::Status LaunchBoth(Lane& lane, const Arguments& arguments, float kept_factor) {
  const AttentionShape& shape = arguments.inputs.shape;
  using K = KeyTiles<kHeadSize>;
  TESSERA_RETURN_IF_ERROR(TESSERA_LAUNCH(lane, (KeyGradientKernel<kHeadSize, kDropout>),
                                         GridOf(shape, shape.kv_heads, K::kKeys), K::kThreads,
                                         K::kSharedBytes, arguments, kept_factor));
  using Q = QueryTiles<kHeadSize>;
  return TESSERA_LAUNCH(lane, (QueryGradientKernel<kHeadSize, kDropout>),
                        GridOf(shape, shape.heads, Q::kQueries), Q::kThreads, Q::kSharedBytes,
                        arguments, kept_factor);
}

}  // namespace

absl::Status BackwardOnTensorCores(Lane& lane, const Arguments& arguments) {
  return ForHeadSize(arguments.inputs.shape.head_size, [&](auto head_size) {
    constexpr int kHeadSize = decltype(head_size)::value;
    if (arguments.inputs.dropout_probability > 0) {
      return LaunchBoth<kHeadSize, true>(lane, arguments, arguments.inputs.Kept());
    }
    return LaunchBoth<kHeadSize, false>(lane, arguments, 1.0f);
  });
}

}  // namespace tessera::kernels::cuda
