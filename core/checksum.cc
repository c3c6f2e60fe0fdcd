#include "core/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tessera {

uint64_t Checksum(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string ChecksumText(uint64_t checksum) { return absl::StrFormat("%016x", checksum); }

struct ChunkChecksums::State {
  XXH3_state_t hash;
};

ChunkChecksums::ChunkChecksums() : state_(new State) { XXH3_64bits_reset(&state_->hash); }
ChunkChecksums::~ChunkChecksums() = default;

void ChunkChecksums::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const auto size = std::min(static_cast<size_t>(kChunk - open_bytes_), bytes.size());
    XXH3_64bits_update(&state_->hash, bytes.data(), size);
    open_bytes_ += static_cast<int64_t>(size);
    bytes.remove_prefix(size);
    if (open_bytes_ < kChunk) continue;
    finished_.push_back(XXH3_64bits_digest(&state_->hash));
    XXH3_64bits_reset(&state_->hash);
    open_bytes_ = 0;
  }
}

std::vector<uint64_t> ChunkChecksums::Finish() {
  if (open_bytes_ > 0) finished_.push_back(XXH3_64bits_digest(&state_->hash));
  return std::move(finished_);
}

}  // namespace tessera
