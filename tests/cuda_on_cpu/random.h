#ifndef TESSERA_TESTS_CUDA_ON_CPU_RANDOM_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RANDOM_H_

#include <cstdint>

namespace tessera::cuda_on_cpu {

// Starts the choices of every schedule anew. Until it is called the seed is the
// environment's TESSERA_SEED, or 1.
void SetSeed(uint64_t seed);
uint64_t Seed();

// The next choice: 64 random bits, or a number from 0 to below `limit`.
uint64_t Random();
inline uint32_t RandomBelow(uint32_t limit) {
  return static_cast<uint32_t>(((Random() >> 32) * limit) >> 32);
}

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RANDOM_H_
