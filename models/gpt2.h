#ifndef TESSERA_MODELS_GPT2_H_
#define TESSERA_MODELS_GPT2_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "models/module.h"

namespace tessera {

// Radford et al., "Language models are unsupervised multitask learners" (2019).
struct Gpt2Config {
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t width = 0;       // of the residual stream
  int64_t context = 0;     // tokens of a sequence
  int64_t vocabulary = 0;  // token ids are below this
  double dropout = 0;      // in [0, 1)
};

// GPT-2 with the names and layouts of Hugging Face's: units "embedding" (wte, wpe),
// "block.<i>" and "head" (ln_f; its matrix is wte, tied). Fields: tokens and
// targets, int32 [context], target t being the token after token t. The predictor
// writes fp32 logits [sequences, context, vocabulary].
//
// InvalidArgument, naming the key to change, for sizes that make no model.
absl::StatusOr<Model> MakeGpt2(const Gpt2Config& config, DType dtype);

}  // namespace tessera

#endif  // TESSERA_MODELS_GPT2_H_
