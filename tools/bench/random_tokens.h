#ifndef TESSERA_TOOLS_BENCH_RANDOM_TOKENS_H_
#define TESSERA_TOOLS_BENCH_RANDOM_TOKENS_H_

#include <cstdint>
#include <vector>

#include "core/data/batch_source.h"

namespace tessera {

// Tokens that follow no pattern, read as quickly as memory is.
class RandomTokens : public BatchSource {
 public:
  explicit RandomTokens(int64_t vocabulary);
  absl::Status Read(int64_t first_sequence, int64_t sequences,
                    absl::Span<const Tensor> fields) override;

 private:
  std::vector<int32_t> tokens_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_BENCH_RANDOM_TOKENS_H_
