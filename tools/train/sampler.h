#ifndef TESSERA_TOOLS_TRAIN_SAMPLER_H_
#define TESSERA_TOOLS_TRAIN_SAMPLER_H_

#include <string>

#include "absl/status/statusor.h"
#include "sharding/trainer.h"

namespace tessera {

// Continues `prompt` by `length` bytes with a byte-level model whose predictor
// writes logits [1, context, 256]: plain sampling, one forward pass a byte. A
// temperature of 0 takes the likeliest. A function of the weights, the seed and
// the arguments; every rank must call it, and gets the same text.
absl::StatusOr<std::string> SampleText(Trainer& trainer, const std::string& prompt, int64_t length,
                                       double temperature, uint64_t seed);

// The text with control characters shown as "\xNN", which a terminal would obey;
// but for line ends and tabs.
std::string Printable(const std::string& text);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_SAMPLER_H_
