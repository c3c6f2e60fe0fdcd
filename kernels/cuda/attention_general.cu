#include <cmath>
#include <cstdint>

#include "core/status.h"
#include "kernels/cuda/attention_arguments.h"
#include "kernels/cuda/attention_dropout.h"
#include "kernels/cuda/attention_launch.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"

namespace tessera::kernels::cuda {
namespace {

// Attention of any dtype and width, in fp32 and without tensor cores: the blocks and sums
// of the other kernels, on tiles of 32 x 32. Eight threads have a row, and every eighth
// column of it.
constexpr int kTile = 32;
constexpr int kRowThreads = 8;
constexpr int kThreads = kTile * kRowThreads;
constexpr int kScores = kTile / kRowThreads;  // a thread, in a tile of scores
constexpr int kWeightStride = kTile + 1;

// Odd, so that the same column of different rows lies in different banks.
constexpr int Stride(int head_size) { return head_size + 1; }
constexpr int64_t TileBytes(int head_size) { return kTile * Stride(head_size) * sizeof(float); }
constexpr int64_t kWeightBytes = kTile * kWeightStride * sizeof(float);
constexpr int64_t kKeptBytes = kTile * sizeof(uint32_t);

template <int kHeadSize, typename T>
__device__ void LoadRows(float* tile, const HeadRows<const T>& head, int first_row) {
  for (int i = threadIdx.x; i < kTile * kHeadSize; i += kThreads) {
    const int row = i / kHeadSize;
    const int column = i % kHeadSize;
    const bool inside = first_row + row < head.length && column < head.columns;
    tile[row * Stride(kHeadSize) + column] =
        inside ? ToFloat(head.Row(first_row + row)[column]) : 0.0f;
  }
}

// Products of the thread's row of tile a with its rows of tile b.
template <int kHeadSize>
__device__ void Products(float (&products)[kScores], const float* a, const float* b) {
  a += threadIdx.x / kRowThreads * Stride(kHeadSize);
  b += threadIdx.x % kRowThreads * Stride(kHeadSize);
#pragma unroll
  for (int i = 0; i < kScores; ++i) products[i] = 0.0f;
  for (int k = 0; k < kHeadSize; ++k) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      products[i] = fmaf(a[k], b[i * kRowThreads * Stride(kHeadSize) + k], products[i]);
    }
  }
}

// sum += the thread's row of `weights` times its columns of tile b.
template <int kHeadSize>
__device__ void AddWeighted(float (&sum)[kHeadSize / kRowThreads], const float* weights,
                            const float* b) {
  weights += threadIdx.x / kRowThreads * kWeightStride;
  b += threadIdx.x % kRowThreads;
  for (int k = 0; k < kTile; ++k) {
#pragma unroll
    for (int i = 0; i < kHeadSize / kRowThreads; ++i) {
      sum[i] = fmaf(weights[k], b[k * Stride(kHeadSize) + i * kRowThreads], sum[i]);
    }
  }
}

template <int kHeadSize, typename T>
__device__ void StoreRow(const float (&values)[kHeadSize / kRowThreads], float factor,
                         const HeadRows<T>& head, int row) {
  if (row >= head.length) return;
#pragma unroll
  for (int i = 0; i < kHeadSize / kRowThreads; ++i) {
    const int column = i * kRowThreads + static_cast<int>(threadIdx.x) % kRowThreads;
    if (column < head.columns) head.Row(row)[column] = FromFloat<T>(values[i] * factor);
  }
}

// The thread's element i of a tile of scores.
__device__ int TileRow() { return static_cast<int>(threadIdx.x) / kRowThreads; }
__device__ int TileColumn(int i) {
  return i * kRowThreads + static_cast<int>(threadIdx.x) % kRowThreads;
}

// Over the threads of a row.
__device__ float RowMaximum(float value) {
  for (int offset = 1; offset < kRowThreads; offset *= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}
__device__ float RowSum(float value) {
  for (int offset = 1; offset < kRowThreads; offset *= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

template <int kHeadSize, typename T>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(const ForwardArguments<T> arguments, float kept_factor) {
  constexpr int kTileElements = kTile * Stride(kHeadSize);
  const AttentionInputs<T>& inputs = arguments.inputs;
  TESSERA_DYNAMIC_SHARED(float, queries);
  float* const keys = queries + kTileElements;
  float* const values = keys + kTileElements;
  float* const weights = values + kTileElements;
  uint32_t* const kept = reinterpret_cast<uint32_t*>(weights + kTile * kWeightStride);

  const int head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int kv_head = head / static_cast<int>(inputs.shape.Group());
  const int length = static_cast<int>(inputs.shape.length);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int query = first_query + TileRow();
  const bool dropout = inputs.dropout_probability > 0;

  LoadRows<kHeadSize>(queries, inputs.Query(inputs.qkv, sequence, head), first_query);
  float out[kHeadSize / kRowThreads] = {};
  float largest = -INFINITY;
  float sum = 0.0f;
  for (int first_key = 0; first_key <= first_query; first_key += kTile) {
    __syncthreads();
    LoadRows<kHeadSize>(keys, inputs.Key(inputs.qkv, sequence, kv_head), first_key);
    LoadRows<kHeadSize>(values, inputs.Value(inputs.qkv, sequence, kv_head), first_key);
    if (dropout) {
      FillKept<kTile, kTile, kThreads>(kept, inputs, sequence, head, first_query, first_key);
    }
    __syncthreads();
    float scores[kScores];
    Products<kHeadSize>(scores, queries, keys);
    float maximum = largest;
    for (int i = 0; i < kScores; ++i) {
      scores[i] = first_key + TileColumn(i) <= query ? scores[i] * inputs.scale : -INFINITY;
      maximum = fmaxf(maximum, scores[i]);
    }
    maximum = RowMaximum(maximum);
    const float correction = expf(largest - maximum);
    largest = maximum;
    sum *= correction;
    for (float& element : out) element *= correction;
    for (int i = 0; i < kScores; ++i) {
      const float p = expf(scores[i] - largest);
      sum += p;
      const bool keep = !dropout || (kept[TileRow()] >> TileColumn(i) & 1) != 0;
      weights[TileRow() * kWeightStride + TileColumn(i)] = keep ? p : 0.0f;
    }
    __syncwarp();
    AddWeighted<kHeadSize>(out, weights, values);
  }
  sum = RowSum(sum);
  if (arguments.log_sum_exp != nullptr && query < length && threadIdx.x % kRowThreads == 0) {
    arguments.log_sum_exp[inputs.Scalar(sequence, head, query)] = largest + logf(sum);
  }
  StoreRow<kHeadSize>(out, kept_factor / sum, inputs.Out(arguments.out, sequence, head), query);
}

// dS of one element, without the scale.
__device__ float ScoreGradient(float p, float d_probability, float factor, float mean) {
  return p * fmaf(d_probability, factor, -mean);
}

template <int kHeadSize, typename T>
__global__ void __launch_bounds__(kThreads)
    KeyGradientKernel(const BackwardArguments<T> arguments, float kept_factor) {
  constexpr int kTileElements = kTile * Stride(kHeadSize);
  const AttentionInputs<T>& inputs = arguments.inputs;
  TESSERA_DYNAMIC_SHARED(float, keys);
  float* const values = keys + kTileElements;
  float* const queries = values + kTileElements;
  float* const d_outs = queries + kTileElements;
  float* const dropped = d_outs + kTileElements;  // P under dropout; rows are keys
  float* const d_scores = dropped + kTile * kWeightStride;
  uint32_t* const kept = reinterpret_cast<uint32_t*>(d_scores + kTile * kWeightStride);

  const int kv_head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int group = static_cast<int>(inputs.shape.Group());
  const int length = static_cast<int>(inputs.shape.length);
  const int first_key = static_cast<int>(blockIdx.x) * kTile;
  const int key = first_key + TileRow();
  const bool dropout = inputs.dropout_probability > 0;

  LoadRows<kHeadSize>(keys, inputs.Key(inputs.qkv, sequence, kv_head), first_key);
  LoadRows<kHeadSize>(values, inputs.Value(inputs.qkv, sequence, kv_head), first_key);
  float d_key[kHeadSize / kRowThreads] = {};
  float d_value[kHeadSize / kRowThreads] = {};
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const int64_t scalars = inputs.Scalar(sequence, head, 0);
    for (int first_query = first_key; first_query < length; first_query += kTile) {
      __syncthreads();
      LoadRows<kHeadSize>(queries, inputs.Query(inputs.qkv, sequence, head), first_query);
      LoadRows<kHeadSize>(d_outs, inputs.Out(arguments.d_out, sequence, head), first_query);
      if (dropout) {
        FillKept<kTile, kTile, kThreads>(kept, inputs, sequence, head, first_query, first_key);
      }
      __syncthreads();
      float scores[kScores];
      float d_probabilities[kScores];
      Products<kHeadSize>(scores, keys, queries);
      Products<kHeadSize>(d_probabilities, values, d_outs);
      for (int i = 0; i < kScores; ++i) {
        const int query = first_query + TileColumn(i);
        const bool visible = query < length && key <= query;
        const bool keep = !dropout || (kept[TileColumn(i)] >> TileRow() & 1) != 0;
        const float factor = keep ? kept_factor : 0.0f;
        float p = 0.0f;
        float d_score = 0.0f;
        if (visible) {
          p = expf(fmaf(scores[i], inputs.scale, -arguments.log_sum_exp[scalars + query]));
          d_score = ScoreGradient(p, d_probabilities[i], factor, arguments.means[scalars + query]);
        }
        dropped[TileRow() * kWeightStride + TileColumn(i)] = p * factor;
        d_scores[TileRow() * kWeightStride + TileColumn(i)] = d_score;
      }
      __syncwarp();
      AddWeighted<kHeadSize>(d_value, dropped, d_outs);
      AddWeighted<kHeadSize>(d_key, d_scores, queries);
    }
  }
  StoreRow<kHeadSize>(d_key, inputs.scale, inputs.Key(arguments.d_qkv, sequence, kv_head), key);
  StoreRow<kHeadSize>(d_value, 1.0f, inputs.Value(arguments.d_qkv, sequence, kv_head), key);
}

template <int kHeadSize, typename T>
__global__ void __launch_bounds__(kThreads)
    QueryGradientKernel(const BackwardArguments<T> arguments, float kept_factor) {
  constexpr int kTileElements = kTile * Stride(kHeadSize);
  const AttentionInputs<T>& inputs = arguments.inputs;
  TESSERA_DYNAMIC_SHARED(float, queries);
  float* const d_outs = queries + kTileElements;
  float* const keys = d_outs + kTileElements;
  float* const values = keys + kTileElements;
  float* const d_scores = values + kTileElements;
  uint32_t* const kept = reinterpret_cast<uint32_t*>(d_scores + kTile * kWeightStride);

  const int head = static_cast<int>(blockIdx.y);
  const int sequence = static_cast<int>(blockIdx.z);
  const int kv_head = head / static_cast<int>(inputs.shape.Group());
  const int length = static_cast<int>(inputs.shape.length);
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile;
  const int query = first_query + TileRow();
  const bool dropout = inputs.dropout_probability > 0;
  const int64_t scalar = inputs.Scalar(sequence, head, query);
  const float log_sum_exp = query < length ? arguments.log_sum_exp[scalar] : INFINITY;
  const float mean = query < length ? arguments.means[scalar] : 0.0f;

  LoadRows<kHeadSize>(queries, inputs.Query(inputs.qkv, sequence, head), first_query);
  LoadRows<kHeadSize>(d_outs, inputs.Out(arguments.d_out, sequence, head), first_query);
  float d_query[kHeadSize / kRowThreads] = {};
  for (int first_key = 0; first_key <= first_query; first_key += kTile) {
    __syncthreads();
    LoadRows<kHeadSize>(keys, inputs.Key(inputs.qkv, sequence, kv_head), first_key);
    LoadRows<kHeadSize>(values, inputs.Value(inputs.qkv, sequence, kv_head), first_key);
    if (dropout) {
      FillKept<kTile, kTile, kThreads>(kept, inputs, sequence, head, first_query, first_key);
    }
    __syncthreads();
    float scores[kScores];
    float d_probabilities[kScores];
    Products<kHeadSize>(scores, queries, keys);
    Products<kHeadSize>(d_probabilities, d_outs, values);
    for (int i = 0; i < kScores; ++i) {
      const bool keep = !dropout || (kept[TileRow()] >> TileColumn(i) & 1) != 0;
      const float p = first_key + TileColumn(i) <= query
                          ? expf(fmaf(scores[i], inputs.scale, -log_sum_exp))
                          : 0.0f;
      d_scores[TileRow() * kWeightStride + TileColumn(i)] =
          ScoreGradient(p, d_probabilities[i], keep ? kept_factor : 0.0f, mean);
    }
    __syncwarp();
    AddWeighted<kHeadSize>(d_query, d_scores, keys);
  }
  StoreRow<kHeadSize>(d_query, inputs.scale, inputs.Query(arguments.d_qkv, sequence, head), query);
}

}  // namespace

template <typename T>
absl::Status ForwardInGeneral(Lane& lane, const ForwardArguments<T>& arguments) {
  const AttentionShape& shape = arguments.inputs.shape;
  return ForHeadSize(shape.head_size, [&](auto head_size) {
    constexpr int kHeadSize = decltype(head_size)::value;
    return TESSERA_LAUNCH(lane, (ForwardKernel<kHeadSize, T>), GridOf(shape, shape.heads, kTile),
                          kThreads, 3 * TileBytes(kHeadSize) + kWeightBytes + kKeptBytes, arguments,
                          arguments.inputs.Kept());
  });
}

template <typename T>
absl::Status BackwardInGeneral(Lane& lane, const BackwardArguments<T>& arguments) {
  const AttentionShape& shape = arguments.inputs.shape;
  return ForHeadSize(shape.head_size, [&](auto head_size) {
    constexpr int kHeadSize = decltype(head_size)::value;
    TESSERA_RETURN_IF_ERROR(TESSERA_LAUNCH(lane, (KeyGradientKernel<kHeadSize, T>),
                                           GridOf(shape, shape.kv_heads, kTile), kThreads,
                                           4 * TileBytes(kHeadSize) + 2 * kWeightBytes + kKeptBytes,
                                           arguments, arguments.inputs.Kept()));
    return TESSERA_LAUNCH(
        lane, (QueryGradientKernel<kHeadSize, T>), GridOf(shape, shape.heads, kTile), kThreads,
        4 * TileBytes(kHeadSize) + kWeightBytes + kKeptBytes, arguments, arguments.inputs.Kept());
  });
}

template absl::Status ForwardInGeneral(Lane& lane, const ForwardArguments<float>& arguments);
template absl::Status BackwardInGeneral(Lane& lane, const BackwardArguments<float>& arguments);
template absl::Status ForwardInGeneral(Lane& lane,
                                       const ForwardArguments<__nv_bfloat16>& arguments);
template absl::Status BackwardInGeneral(Lane& lane,
                                        const BackwardArguments<__nv_bfloat16>& arguments);

}  // namespace tessera::kernels::cuda
