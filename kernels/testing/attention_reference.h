#ifndef TESSERA_KERNELS_TESTING_ATTENTION_REFERENCE_H_
#define TESSERA_KERNELS_TESTING_ATTENTION_REFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/philox.h"
#include "core/tensor.h"

namespace tessera::kernels {

// An attention to test, and what it gives in double precision.
struct AttentionCase {
  int64_t batch = 1;
  int64_t length = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_size = 1;
  float dropout = 0;
  RandomKey key = {/*seed=*/5, RandomPurpose::kDropout, /*stream=*/3, /*micro_batch=*/2,
                   /*step=*/7};

  Shape Qkv() const { return {batch, length, (heads + 2 * kv_heads) * head_size}; }
  Shape Out() const { return {batch, length, heads * head_size}; }
  Shape Sums() const { return {batch, heads, length}; }
  std::string Name() const;
};

struct AttentionResult {
  std::vector<double> out;
  std::vector<double> log_sum_exp;
};

AttentionResult ReferenceAttention(const AttentionCase& c, const std::vector<double>& qkv);

// The gradient of sum(out * d_out), by the chain rule with whole matrices.
std::vector<double> ReferenceAttentionGradient(const AttentionCase& c,
                                               const std::vector<double>& qkv,
                                               const std::vector<double>& d_out);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_TESTING_ATTENTION_REFERENCE_H_
