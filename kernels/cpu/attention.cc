#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/status.h"
#include "kernels/attention_shape.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/random_words.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kBlock = 128;  // queries
constexpr float kMasked = -std::numeric_limits<float>::infinity();

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Where things are, and what every tile shares.
struct Problem : AttentionShape {
  Problem(const Tensor& qkv, int64_t heads, int64_t kv_heads, float dropout_probability,
          const RandomKey& key)
      : AttentionShape(AttentionShapeOf(qkv, heads, kv_heads, dropout_probability)),
        dtype(qkv.dtype),
        blocks((length + kBlock - 1) / kBlock),
        stride(RoundUp(length, 16)),
        scale(1.0f / std::sqrt(static_cast<float>(head_size))),
        dropout_probability(dropout_probability),
        key(key) {}

  int64_t Queries(int64_t block) const { return std::min(kBlock, length - block * kBlock); }
  // That the queries of a block see.
  int64_t Keys(int64_t block) const { return block * kBlock + Queries(block); }

  DType dtype;
  int64_t blocks;
  int64_t stride;  // of a row of scratch with an element per key
  float scale;
  float dropout_probability;
  RandomKey key;
};

// One head of queries of one sequence.
template <typename T>
struct Head {
  Head(const Problem& problem, int64_t index, const Tensor& qkv)
      : index(index), sequence(index / problem.heads), head(index % problem.heads) {
    T* const rows = qkv.as<T>() + sequence * problem.length * problem.QkvWidth();
    const int64_t kv_head = head / problem.Group();
    q = rows + problem.QueryChannel(head);
    k = rows + problem.KeyChannel(kv_head);
    v = rows + problem.ValueChannel(kv_head);
  }

  // Of the head in a tensor of out's shape.
  T* In(const Problem& problem, const Tensor& tensor) const {
    return tensor.as<T>() + sequence * problem.length * problem.OutWidth() +
           problem.QueryChannel(head);
  }

  int64_t index;
  int64_t sequence;
  int64_t head;
  T* q;
  T* k;
  T* v;
};

// The first `count` factors of row `query` of P under dropout: 0 or
// 1 / (1 - probability). `words` is scratch. Both hold stride + 64 elements.
void DropoutFactors(const Problem& problem, int64_t head, int64_t query, int64_t count,
                    uint32_t* words, float* factors) {
  const int64_t first = (head * problem.length + query) * problem.length;
  const int64_t aligned = first / 4 * 4;
  const int64_t skipped = first - aligned;
  const float kept = 1.0f / (1.0f - problem.dropout_probability);
  const float probability = problem.dropout_probability;
  RandomWords(problem.key, aligned, RoundUp(count + skipped, kRandomWordsWidth), words);
  for (int64_t j = 0; j < count; ++j) {
    factors[j] = UnitFloat(words[skipped + j]) < probability ? 0.0f : kept;
  }
}

// The products of a block of queries.
struct Products {
  const Gemm* scores = nullptr;    // q k^T and d_out v^T
  const Gemm* weighted = nullptr;  // P v and dS k
  const Gemm* gradient_scores = nullptr;
  // dk = dS^T q and dv = P^T d_out, or += for [true].
  const Gemm* transposed[2] = {};
  const Gemm* transposed_out[2] = {};
};

GemmShape Scores(const Problem& problem, int64_t block, int64_t a_stride) {
  return {.m = problem.Queries(block),
          .n = problem.Keys(block),
          .k = problem.head_size,
          .a_stride = a_stride,
          .b_stride = problem.QkvWidth(),
          .c_stride = problem.stride,
          .transpose_b = Transpose::kYes,
          .input = problem.dtype};
}

GemmShape Weighted(const Problem& problem, int64_t block, int64_t c_stride) {
  return {.m = problem.Queries(block),
          .n = problem.head_size,
          .k = problem.Keys(block),
          .a_stride = problem.stride,
          .b_stride = problem.QkvWidth(),
          .c_stride = c_stride,
          .input = problem.dtype,
          .output = problem.dtype};
}

// Blocks are visited from the last to the first: the last has every key, so that of a
// group's first head writes what all others add to.
GemmShape Transposed(const Problem& problem, int64_t block, int64_t b_stride, bool accumulate) {
  return {.m = problem.Keys(block),
          .n = problem.head_size,
          .k = problem.Queries(block),
          .a_stride = problem.stride,
          .b_stride = b_stride,
          .c_stride = problem.head_size,
          .transpose_a = Transpose::kYes,
          .input = problem.dtype,
          .accumulate = accumulate};
}

template <typename T>
void ForwardBlock(const Problem& problem, const Products& products, int64_t index, int64_t block,
                  const Tensor& qkv, const Tensor& out, float* log_sum_exp) {
  const Head<T> head(problem, index, qkv);
  const float scale = problem.scale;
  const int64_t first = block * kBlock;
  const int64_t keys = problem.Keys(block);
  const int64_t area = kBlock * problem.stride;
  float* scores = Scratch<float>(ScratchUse::kAttention, 2 * area + 2 * (problem.stride + 64));
  T* probabilities = reinterpret_cast<T*>(scores + area);
  float* factors = scores + 2 * area;
  uint32_t* words = reinterpret_cast<uint32_t*>(factors + problem.stride + 64);

  products.scores->Run(head.q + first * problem.QkvWidth(), head.k, nullptr, scores);
  Vectorized([&] {
    for (int64_t i = 0; i < problem.Queries(block); ++i) {
      const int64_t query = first + i;
      const int64_t seen = query + 1;
      const int64_t padded = RoundUp(seen, kRunning);
      float* row = scores + i * problem.stride;
      T* to = probabilities + i * problem.stride;
      // The exponential of what no query may see is 0, and loops have no remainder.
      for (int64_t j = padded - kRunning; j < padded; ++j) row[j] = j < seen ? row[j] : kMasked;
      const float largest = Max(row, padded) * scale;
      const float sum = Sum(padded, [=](int64_t j) {
        row[j] = Exp(std::fma(row[j], scale, -largest));
        return row[j];
      });
      const float inverse = 1.0f / sum;
      if (problem.dropout_probability > 0) {
        DropoutFactors(problem, index, query, padded, words, factors);
        for (int64_t j = 0; j < padded; ++j) to[j] = static_cast<T>(row[j] * inverse * factors[j]);
      } else {
        for (int64_t j = 0; j < padded; ++j) to[j] = static_cast<T>(row[j] * inverse);
      }
      std::fill(to + padded, to + std::max(keys, padded), T(0.0f));
      if (log_sum_exp != nullptr) {
        log_sum_exp[index * problem.length + query] = largest + std::log(sum);
      }
    }
  });
  products.weighted->Run(probabilities, head.v, nullptr,
                         head.In(problem, out) + first * problem.OutWidth());
}

// Writes the gradient of the head's queries, and writes or adds those of its keys and
// values to dk and dv, fp32 [T, d].
template <typename T>
void BackwardHead(const Problem& problem, const std::vector<Products>& products, int64_t index,
                  const Tensor& qkv, const Tensor& out, const float* log_sum_exp,
                  const Tensor& d_out, const Tensor& d_qkv, float* scratch, float* dk, float* dv) {
  const Head<T> head(problem, index, qkv);
  const Head<T> gradient(problem, index, d_qkv);
  const bool first_of_group = head.head % problem.Group() == 0;
  const float scale = problem.scale;
  const int64_t area = kBlock * problem.stride;
  float* scores = scratch;
  float* d_probabilities = scores + area;
  T* dropped = reinterpret_cast<T*>(d_probabilities + area);  // D(P)
  T* d_scores = reinterpret_cast<T*>(d_probabilities + 2 * area);
  float* factors = d_probabilities + 3 * area;
  uint32_t* words = reinterpret_cast<uint32_t*>(factors + problem.stride + 64);
  std::fill(factors, factors + problem.stride, 1.0f);

  for (int64_t block = problem.blocks - 1; block >= 0; --block) {
    const int64_t first = block * kBlock;
    const int64_t keys = problem.Keys(block);
    const T* block_q = head.q + first * problem.QkvWidth();
    const T* block_out = head.In(problem, out) + first * problem.OutWidth();
    const T* block_d_out = head.In(problem, d_out) + first * problem.OutWidth();
    products[block].scores->Run(block_q, head.k, nullptr, scores);
    products[block].gradient_scores->Run(block_d_out, head.v, nullptr, d_probabilities);
    Vectorized([&] {
      for (int64_t i = 0; i < problem.Queries(block); ++i) {
        const int64_t query = first + i;
        const int64_t seen = query + 1;
        const int64_t padded = RoundUp(seen, kRunning);
        const T* out_row = block_out + i * problem.OutWidth();
        const T* d_out_row = block_d_out + i * problem.OutWidth();
        // The sum over j of P dP, without the sum: out . d_out.
        const float mean = Sum(problem.head_size, [=](int64_t c) {
          return ToFloat(out_row[c]) * ToFloat(d_out_row[c]);
        });
        float* from = scores + i * problem.stride;
        float* d_from = d_probabilities + i * problem.stride;
        T* to = dropped + i * problem.stride;
        T* d_to = d_scores + i * problem.stride;
        const float minus_log_sum_exp = -log_sum_exp[head.index * problem.length + query];
        if (problem.dropout_probability > 0) {
          DropoutFactors(problem, head.index, query, padded, words, factors);
        }
        for (int64_t j = padded - kRunning; j < padded; ++j) {
          from[j] = j < seen ? from[j] : kMasked;
          d_from[j] = j < seen ? d_from[j] : 0.0f;
        }
        for (int64_t j = 0; j < padded; ++j) {
          const float p = Exp(std::fma(from[j], scale, minus_log_sum_exp));
          to[j] = static_cast<T>(p * factors[j]);
          d_to[j] = static_cast<T>(p * std::fma(d_from[j], factors[j], -mean) * scale);
        }
        std::fill(to + padded, to + std::max(keys, padded), T(0.0f));
        std::fill(d_to + padded, d_to + std::max(keys, padded), T(0.0f));
      }
    });
    products[block].weighted->Run(d_scores, head.k, nullptr,
                                  gradient.q + first * problem.QkvWidth());
    const bool accumulate = block != problem.blocks - 1 || !first_of_group;
    products[block].transposed[accumulate]->Run(d_scores, block_q, nullptr, dk);
    products[block].transposed_out[accumulate]->Run(dropped, block_d_out, nullptr, dv);
  }
}

// All heads of queries that share a head of keys and values.
template <typename T>
void BackwardGroup(const Problem& problem, const std::vector<Products>& products, int64_t index,
                   const Tensor& qkv, const Tensor& out, const float* log_sum_exp,
                   const Tensor& d_out, const Tensor& d_qkv) {
  const int64_t head_elements = RoundUp(problem.length * problem.head_size, 16);
  float* dk =
      Scratch<float>(ScratchUse::kAttention,
                     2 * head_elements + 4 * kBlock * problem.stride + 2 * (problem.stride + 64));
  float* dv = dk + head_elements;
  const int64_t first = index * problem.Group();
  for (int64_t head = first; head < first + problem.Group(); ++head) {
    BackwardHead<T>(problem, products, head, qkv, out, log_sum_exp, d_out, d_qkv,
                    dv + head_elements, dk, dv);
  }
  const Head<T> gradient(problem, first, d_qkv);
  for (int64_t i = 0; i < problem.length; ++i) {
    for (int64_t c = 0; c < problem.head_size; ++c) {
      gradient.k[i * problem.QkvWidth() + c] = static_cast<T>(dk[i * problem.head_size + c]);
      gradient.v[i * problem.QkvWidth() + c] = static_cast<T>(dv[i * problem.head_size + c]);
    }
  }
}

}  // namespace

absl::Status AttentionForward(Lane& lane, const Tensor& qkv, int64_t heads, int64_t kv_heads,
                              float dropout_probability, const RandomKey& key, const Tensor& out,
                              const Tensor& log_sum_exp) {
  const Problem problem(qkv, heads, kv_heads, dropout_probability, key);
  std::vector<Products> products(static_cast<size_t>(problem.blocks));
  for (int64_t block = 0; block < problem.blocks; ++block) {
    TESSERA_ASSIGN_OR_RETURN(products[block].scores,
                             Gemm::Get(Scores(problem, block, problem.QkvWidth())));
    TESSERA_ASSIGN_OR_RETURN(products[block].weighted,
                             Gemm::Get(Weighted(problem, block, problem.OutWidth())));
  }
  float* const sums = log_sum_exp.data == nullptr ? nullptr : log_sum_exp.as<float>();
  const auto run = qkv.dtype == DType::kBFloat16 ? ForwardBlock<BFloat16> : ForwardBlock<float>;
  lane.pool().For(problem.batch * heads * problem.blocks, [&](int64_t tile) {
    const int64_t block = tile % problem.blocks;
    run(problem, products[block], tile / problem.blocks, block, qkv, out, sums);
  });
  return absl::OkStatus();
}

int64_t AttentionBackwardWorkspace(int64_t /*batch*/, int64_t /*heads*/, int64_t /*length*/) {
  return 0;
}

absl::Status AttentionBackward(Lane& lane, const Tensor& qkv, const Tensor& out,
                               const Tensor& log_sum_exp, const Tensor& d_out, int64_t heads,
                               int64_t kv_heads, float dropout_probability, const RandomKey& key,
                               const Tensor& d_qkv, std::byte* /*workspace*/) {
  const Problem problem(qkv, heads, kv_heads, dropout_probability, key);
  const int64_t row = problem.QkvWidth();
  std::vector<Products> products(static_cast<size_t>(problem.blocks));
  for (int64_t block = 0; block < problem.blocks; ++block) {
    Products& of = products[block];
    TESSERA_ASSIGN_OR_RETURN(of.scores, Gemm::Get(Scores(problem, block, row)));
    TESSERA_ASSIGN_OR_RETURN(of.gradient_scores,
                             Gemm::Get(Scores(problem, block, problem.OutWidth())));
    TESSERA_ASSIGN_OR_RETURN(of.weighted, Gemm::Get(Weighted(problem, block, row)));
    for (const bool accumulate : {false, true}) {
      const bool last = block == problem.blocks - 1;
      if (accumulate ? last && problem.Group() == 1 : !last) continue;
      TESSERA_ASSIGN_OR_RETURN(of.transposed[accumulate],
                               Gemm::Get(Transposed(problem, block, row, accumulate)));
      TESSERA_ASSIGN_OR_RETURN(
          of.transposed_out[accumulate],
          Gemm::Get(Transposed(problem, block, problem.OutWidth(), accumulate)));
    }
  }
  const float* const sums = log_sum_exp.as<float>();
  const auto run = qkv.dtype == DType::kBFloat16 ? BackwardGroup<BFloat16> : BackwardGroup<float>;
  lane.pool().For(problem.batch * kv_heads, [&](int64_t index) {
    run(problem, products, index, qkv, out, sums, d_out, d_qkv);
  });
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
