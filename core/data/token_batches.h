#ifndef TESSERA_CORE_DATA_TOKEN_BATCHES_H_
#define TESSERA_CORE_DATA_TOKEN_BATCHES_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/data/batch_source.h"
#include "core/data/token_file.h"

namespace tessera {

// The sequences of a token file, T = context tokens each, without overlap:
// sequence i predicts tokens i*T + 1 .. i*T + T from tokens i*T .. i*T + T - 1.
// The stream goes over the file again and again; fields are the int32 tensors
// tokens [n, T] and targets [n, T].
class TokenBatches final : public BatchSource {
 public:
  // With a seed, every epoch has a random order of its own, a pure function of
  // (seed, epoch, position); without, the file's order. Fails when the file holds
  // not one sequence.
  static absl::StatusOr<std::unique_ptr<TokenBatches>> Create(std::shared_ptr<const TokenFile> file,
                                                              int64_t context,
                                                              std::optional<uint64_t> shuffle_seed);

  const TokenFile& file() const { return *file_; }
  int64_t sequences_per_epoch() const { return sequences_; }

  // The sequence of the file at a position of the endless stream.
  int64_t SequenceAt(int64_t position) const;

  absl::Status Read(int64_t first_sequence, int64_t sequences,
                    absl::Span<const Tensor> fields) override;

 private:
  TokenBatches(std::shared_ptr<const TokenFile> file, int64_t context,
               std::optional<uint64_t> shuffle_seed, int64_t sequences);

  const std::shared_ptr<const TokenFile> file_;
  const int64_t context_;
  const std::optional<uint64_t> shuffle_seed_;
  const int64_t sequences_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_DATA_TOKEN_BATCHES_H_
