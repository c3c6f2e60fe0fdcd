#ifndef TESSERA_CORE_PHILOX_H_
#define TESSERA_CORE_PHILOX_H_

#include <array>
#include <cstdint>

namespace tessera {

inline constexpr uint64_t kPhiloxMultiplier0 = 0xD2511F53u;
inline constexpr uint64_t kPhiloxMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;

// Philox4x32-10, a counter-based generator: Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011). The same key and counter give the
// same four words everywhere; there is no state to carry or to save.
constexpr std::array<uint32_t, 4> Philox(uint64_t key, std::array<uint32_t, 4> counter) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kPhiloxMultiplier0 * counter[0];
    const uint64_t p1 = kPhiloxMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  return counter;
}

// What a stream of random numbers is for; streams never overlap.
enum class RandomPurpose : uint32_t {
  kInitialization = 1,
  kDropout = 2,
  kShuffle = 3,
  kSample = 4,
  kRounding = 5
};

// Names one stream of numbers: never a rank, so that every world draws the same.
// Element e of the stream is word e % 4 of Philox at counter
// {e / 4, stream | purpose << 28, micro_batch, step}.
struct RandomKey {
  uint64_t seed = 0;
  RandomPurpose purpose = RandomPurpose::kDropout;
  uint32_t stream = 0;  // below 2^28: a layer's dropout, a parameter, ...
  uint32_t micro_batch = 0;
  uint32_t step = 0;

  // The four words that hold elements 4 * block .. 4 * block + 3.
  constexpr std::array<uint32_t, 4> Block(uint32_t block) const {
    return Philox(seed, Counter(block));
  }
  constexpr std::array<uint32_t, 4> Counter(uint32_t block) const {
    return {block, stream | static_cast<uint32_t>(purpose) << 28, micro_batch, step};
  }
  constexpr uint32_t Word(uint64_t element) const {
    return Block(static_cast<uint32_t>(element / 4))[element % 4];
  }
};

// A word as a float in [0, 1), exactly: its upper 24 bits. Through a signed
// integer, for which processors have a vector conversion.
constexpr float UnitFloat(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}

}  // namespace tessera

#endif  // TESSERA_CORE_PHILOX_H_
