#include <algorithm>

#include "core/cuda_lane.h"
#include "kernels/cuda/block_reduce.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/token_lists.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"
#include "kernels/embedding.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kElements = kSlotElements;
constexpr int kThreads = 256;

template <bool kVector>
int64_t ThreadsOf(const RowSlots<kVector>& slots) {
  return std::min<int64_t>(kThreads, CeilDivide(slots.count(), kWarp) * kWarp);
}

template <typename Slots, typename T>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(const int32_t* tokens, int64_t length, int64_t vocabulary, const T* token_table,
                  const T* position_table, Slots slots, T* out, CudaFault* fault) {
  const auto row = static_cast<int64_t>(blockIdx.x);
  const int64_t token =
      CheckedIndex(fault, CudaFault::kTokenOutOfRange, tokens[row], row, vocabulary);
  const T* token_row = token_table + token * slots.width;
  const T* position_row = position_table + row % length * slots.width;
  for (auto slot = static_cast<int>(threadIdx.x); slot < slots.count();
       slot += static_cast<int>(blockDim.x)) {
    float values[kElements];
    float position[kElements];
    LoadSlot(token_row, slots, slot, values);
    LoadSlot(position_row, slots, slot, position);
#pragma unroll
    for (int i = 0; i < kElements; ++i) values[i] += position[i];
    StoreSlot(values, slots, slot, out + row * slots.width);
  }
}

// The rows of d_out that went into one row of a table, in order.
struct RowsOfToken {
  const int32_t* starts;
  const int32_t* order;

  __device__ int Count(int64_t token) const { return starts[token + 1] - starts[token]; }
  __device__ int64_t Row(int64_t token, int i) const { return order[starts[token] + i]; }
};

struct RowsOfPosition {
  int sequences;
  int64_t length;

  __device__ int Count(int64_t position) const { return position < length ? sequences : 0; }
  __device__ int64_t Row(int64_t position, int i) const { return i * length + position; }
};

// A block for every row of the table.
template <typename Slots, typename Rows, typename In, typename Out>
__global__ void __launch_bounds__(kThreads)
    SumRowsKernel(Rows rows, const In* d_out, Slots slots, Out* table) {
  constexpr int kAtOnce = 4;  // rows that are on their way from memory
  const auto own = static_cast<int64_t>(blockIdx.x);
  const int count = rows.Count(own);
  for (auto slot = static_cast<int>(threadIdx.x); slot < slots.count();
       slot += static_cast<int>(blockDim.x)) {
    float sum[kElements] = {};
    for (int first = 0; first < count; first += kAtOnce) {
      float values[kAtOnce][kElements] = {};
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (first + j < count) {
          LoadSlot(d_out + rows.Row(own, first + j) * slots.width, slots, slot, values[j]);
        }
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (first + j < count) {
#pragma unroll
          for (int i = 0; i < kElements; ++i) sum[i] += values[j][i];
        }
      }
    }
    StoreSlot(sum, slots, slot, table + own * slots.width);
  }
}

template <typename Rows>
absl::Status SumRows(Lane& lane, const Rows& rows, const Tensor& d_out, const Tensor& table) {
  return WithFloatType(d_out.dtype, [&](auto in_type) {
    return WithFloatType(table.dtype, [&](auto out_type) {
      using In = decltype(in_type);
      using Out = decltype(out_type);
      return WithRowSlots(
          table.shape[1],
          [&](auto slots) {
            return TESSERA_LAUNCH(lane, (SumRowsKernel<decltype(slots), Rows, In, Out>),
                                  table.shape[0], ThreadsOf(slots), 0, rows, Elements<In>(d_out),
                                  slots, Elements<Out>(table));
          },
          d_out.data, table.data);
    });
  });
}

}  // namespace

absl::Status EmbeddingForward(Lane& lane, const Tensor& tokens, const Tensor& token_table,
                              const Tensor& position_table, const Tensor& out) {
  const int64_t length = tokens.shape[1];
  const int64_t width = token_table.shape[1];
  return WithFloatType(out.dtype, [&](auto type) {
    using T = decltype(type);
    return WithRowSlots(
        width,
        [&](auto slots) {
          return TESSERA_LAUNCH(
              lane, (ForwardKernel<decltype(slots), T>), tokens.elements(), ThreadsOf(slots), 0,
              tokens.as<int32_t>(), length, token_table.shape[0], Elements<T>(token_table),
              Elements<T>(position_table), slots, Elements<T>(out), CudaLaneOf(lane).fault());
        },
        token_table.data, position_table.data, out.data);
  });
}

absl::Status EmbeddingBackward(Lane& lane, const Tensor& tokens, const Tensor& d_out,
                               const Tensor& d_token_table, const Tensor& d_position_table,
                               std::byte* workspace) {
  const int64_t vocabulary = d_token_table.shape[0];
  const int64_t length = tokens.shape[1];
  auto* starts = reinterpret_cast<int32_t*>(workspace);
  int32_t* order = starts + vocabulary + 1;
  TESSERA_RETURN_IF_ERROR(
      ListTokens(lane, tokens, vocabulary, starts, order, order + tokens.elements()));
  TESSERA_RETURN_IF_ERROR(SumRows(lane, RowsOfToken{starts, order}, d_out, d_token_table));
  return SumRows(lane, RowsOfPosition{static_cast<int>(tokens.shape[0]), length}, d_out,
                 d_position_table);
}

}  // namespace tessera::kernels::cuda
