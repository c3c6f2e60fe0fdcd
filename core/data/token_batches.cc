#include "core/data/token_batches.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/data/shuffle.h"
#include "core/status.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<TokenBatches>> TokenBatches::Create(
    std::shared_ptr<const TokenFile> file, int64_t context, std::optional<uint64_t> shuffle_seed) {
  TESSERA_CHECK(context > 0, absl::StrCat("context ", context));
  // The last token of a sequence is only a target: hence one more.
  const int64_t sequences = (file->tokens() - 1) / context;
  if (sequences < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        file->path(), ": ", file->tokens(), " tokens; expected at least ", context + 1,
        " for one sequence of ", context, ": use more data, or a smaller model.context"));
  }
  return std::unique_ptr<TokenBatches>(
      new TokenBatches(std::move(file), context, shuffle_seed, sequences));
}

TokenBatches::TokenBatches(std::shared_ptr<const TokenFile> file, int64_t context,
                           std::optional<uint64_t> shuffle_seed, int64_t sequences)
    : file_(std::move(file)),
      context_(context),
      shuffle_seed_(shuffle_seed),
      sequences_(sequences) {}

int64_t TokenBatches::SequenceAt(int64_t position) const {
  const int64_t place = position % sequences_;
  if (!shuffle_seed_.has_value()) return place;
  return Shuffled(*shuffle_seed_, position / sequences_, place, sequences_);
}

absl::Status TokenBatches::Read(int64_t first_sequence, int64_t sequences,
                                absl::Span<const Tensor> fields) {
  TESSERA_CHECK(fields.size() == 2, absl::StrCat(fields.size(), " fields"));
  for (const Tensor& field : fields) {
    TESSERA_CHECK(field.elements() == sequences * context_,
                  absl::StrCat(field.elements(), " elements for ", sequences, " sequences"));
  }
  int32_t* tokens = fields[0].as<int32_t>();
  int32_t* targets = fields[1].as<int32_t>();
  for (int64_t i = 0; i < sequences; ++i, tokens += context_, targets += context_) {
    const int64_t first_token = SequenceAt(first_sequence + i) * context_;
    TESSERA_RETURN_IF_ERROR(
        file_->Read(first_token, absl::MakeSpan(tokens, static_cast<size_t>(context_))));
    std::copy(tokens + 1, tokens + context_, targets);
    TESSERA_RETURN_IF_ERROR(
        file_->Read(first_token + context_, absl::MakeSpan(targets + context_ - 1, 1)));
  }
  return absl::OkStatus();
}

}  // namespace tessera
