#ifndef TESSERA_KERNELS_CUDA_ATTENTION_DROPOUT_H_
#define TESSERA_KERNELS_CUDA_ATTENTION_DROPOUT_H_

#include <cstdint>

#include "core/philox.h"
#include "kernels/cuda/attention_arguments.h"

namespace tessera::kernels::cuda {

// Bit i says whether dropout keeps element `first` + i. A block of random numbers
// holds four elements, so eight blocks or, where `first` is inside one, nine.
__device__ inline uint32_t KeptBits(const RandomKey& key, float probability, uint64_t first) {
  const uint32_t block = static_cast<uint32_t>(first / 4);
  const int inside = static_cast<int>(first % 4);
  const int blocks = inside == 0 ? 8 : 9;
  uint64_t bits = 0;
  for (int i = 0; i < blocks; ++i) {
    const auto words = key.Block(block + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint64_t kept = UnitFloat(words[j]) >= probability ? 1 : 0;
      bits |= kept << (4 * i + j);
    }
  }
  return static_cast<uint32_t>(bits >> inside);
}

// Dropout's decisions for a tile of P: bit j % 32 of kept[i * kKeys / 32 + j / 32] is
// for query first_query + i and key first_key + j. All threads of the block take part.
template <int kQueries, int kKeys, int kThreads, typename T>
__device__ void FillKept(uint32_t* kept, const AttentionInputs<T>& inputs, int sequence, int head,
                         int first_query, int first_key) {
  static_assert(kKeys % 32 == 0);
  for (int i = threadIdx.x; i < kQueries * kKeys / 32; i += kThreads) {
    const int query = first_query + i / (kKeys / 32);
    const int from = first_key + i % (kKeys / 32) * 32;
    const bool used = query < inputs.shape.length && from <= query;
    const int64_t element = inputs.Scalar(sequence, head, query) * inputs.shape.length + from;
    kept[i] = used ? KeptBits(inputs.key, inputs.dropout_probability, element) : 0;
  }
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_ATTENTION_DROPOUT_H_
