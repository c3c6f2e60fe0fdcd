#ifndef TESSERA_MODELS_GPT2_MODULES_H_
#define TESSERA_MODELS_GPT2_MODULES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "models/gpt2.h"
#include "models/module.h"

// The modules of GPT-2 and their parameters, in the order in which each module
// expects them. B sequences of T = context tokens, width C, vocabulary V.
namespace tessera {

// wte.weight [V, C], wpe.weight [context, C].
std::vector<ParameterSpec> Gpt2EmbeddingParameters(const Gpt2Config& config);

// Field 0 (tokens) to [B, T, C]: wte[token] + wpe[position], with dropout.
std::shared_ptr<const Module> MakeGpt2Embedding(const Gpt2Config& config, DType dtype);

// ln_1, attn.c_attn, attn.c_proj, ln_2, mlp.c_fc, mlp.c_proj: .weight and .bias each.
std::vector<ParameterSpec> Gpt2BlockParameters(const Gpt2Config& config);

// A transformer block, [B, T, C] to [B, T, C]:
//   s = x + attention(ln_1(x)),  y = s + mlp(ln_2(s))
std::shared_ptr<const Module> MakeGpt2Block(const Gpt2Config& config, DType dtype, int64_t layer);

// ln_f.weight, ln_f.bias. The modules below take wte.weight after them.
std::vector<ParameterSpec> Gpt2HeadParameters(const Gpt2Config& config);

// ln_f, then the cross-entropy of logits h wte^T against field 1 (targets).
std::shared_ptr<const Module> MakeGpt2Head(const Gpt2Config& config, DType dtype);

// ln_f, then the logits themselves, fp32 [B, T, V].
std::shared_ptr<const Module> MakeGpt2Predictor(const Gpt2Config& config, DType dtype);

// The dropouts of GPT-2. Each has a random stream of its own.
enum class Gpt2Dropout : uint32_t { kEmbedding, kAttention, kAttentionOutput, kMlpOutput };

inline uint32_t Gpt2DropoutStream(int64_t layer, Gpt2Dropout place) {
  return static_cast<uint32_t>(layer) * 4 + static_cast<uint32_t>(place);
}

}  // namespace tessera

#endif  // TESSERA_MODELS_GPT2_MODULES_H_
