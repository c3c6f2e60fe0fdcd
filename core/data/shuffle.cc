#include "core/data/shuffle.h"

#include <bit>

#include "absl/strings/str_cat.h"
#include "core/philox.h"
#include "core/status.h"

namespace tessera {
namespace {

constexpr uint32_t kRounds = 6;

// A balanced Feistel network permutes the numbers of 2 * half_bits bits,
// whatever its round function is.
uint64_t Permute(uint64_t seed, uint64_t epoch, uint64_t value, int half_bits) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = value >> half_bits;
  uint64_t right = value & mask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const RandomKey key{seed, RandomPurpose::kShuffle, round, static_cast<uint32_t>(epoch),
                        static_cast<uint32_t>(epoch >> 32)};
    const uint64_t mixed = left ^ (key.Block(static_cast<uint32_t>(right))[0] & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t Shuffled(uint64_t seed, int64_t epoch, int64_t position, int64_t count) {
  TESSERA_CHECK(epoch >= 0 && position >= 0 && position < count,
                absl::StrCat("epoch ", epoch, ", position ", position, " of ", count));
  const int bits = std::bit_width(static_cast<uint64_t>(count - 1));
  const int half_bits = (bits + 1) / 2;
  // Following the permutation's cycle until it is back inside [0, count)
  // restricts it to a bijection there; the domain is less than 4 * count.
  uint64_t value = static_cast<uint64_t>(position);
  do {
    value = Permute(seed, static_cast<uint64_t>(epoch), value, half_bits);
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

}  // namespace tessera
