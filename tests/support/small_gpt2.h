#ifndef TESSERA_TESTS_SUPPORT_SMALL_GPT2_H_
#define TESSERA_TESTS_SUPPORT_SMALL_GPT2_H_

#include "models/gpt2.h"
#include "tests/support/training.h"

namespace tessera::testing {

inline constexpr int kSmallVocabulary = 61;  // prime: nothing divides it

// 28 thousand parameters, with dropout.
inline Model SmallGpt2(DType dtype) {
  return *MakeGpt2({.layers = 2,
                    .heads = 2,
                    .width = 32,
                    .context = 16,
                    .vocabulary = kSmallVocabulary,
                    .dropout = 0.1},
                   dtype);
}

// Three steps that clip.
inline RunOptions SmallGpt2Options() {
  RunOptions options;
  options.trainer.plan.micro_sequences = 2;
  options.trainer.optimizer.clip_norm = 0.5;
  return options;
}

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SUPPORT_SMALL_GPT2_H_
