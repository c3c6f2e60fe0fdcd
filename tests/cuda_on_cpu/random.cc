#include "tests/cuda_on_cpu/random.h"

#include <cstdlib>

namespace tessera::cuda_on_cpu {
namespace {

constexpr uint64_t kWeyl = 0x9E3779B97F4A7C15;

uint64_t FromEnvironment() {
  const char* text = std::getenv("TESSERA_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 0);
}

uint64_t seed = FromEnvironment();
uint64_t state = seed * kWeyl;

}  // namespace

void SetSeed(uint64_t value) {
  seed = value;
  state = value * kWeyl;
}

uint64_t Seed() { return seed; }

// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators" (OOPSLA 2014).
uint64_t Random() {
  uint64_t z = (state += kWeyl);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace tessera::cuda_on_cpu
