#include "tools/bench/random_tokens.h"

#include <algorithm>

#include "core/philox.h"

namespace tessera {
namespace {

constexpr int64_t kTokens = int64_t{1} << 20;

}  // namespace

RandomTokens::RandomTokens(int64_t vocabulary) : tokens_(kTokens) {
  const RandomKey key = {1, RandomPurpose::kShuffle, 0, 0, 0};
  for (int64_t i = 0; i < kTokens; ++i) {
    tokens_[i] = static_cast<int32_t>(key.Word(static_cast<uint64_t>(i)) % vocabulary);
  }
}

absl::Status RandomTokens::Read(int64_t first_sequence, int64_t sequences,
                                absl::Span<const Tensor> fields) {
  const int64_t context = fields[0].shape[1];
  for (const Tensor& field : fields) {
    for (int64_t s = 0; s < sequences; ++s) {
      const int64_t at = (first_sequence + s) * context % (kTokens - context);
      std::copy_n(tokens_.begin() + at, context, field.as<int32_t>() + s * context);
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
