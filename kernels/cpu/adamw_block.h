#ifndef TESSERA_KERNELS_CPU_ADAMW_BLOCK_H_
#define TESSERA_KERNELS_CPU_ADAMW_BLOCK_H_

#include <cstdint>

#include "kernels/adamw_update.h"

namespace tessera::kernels::cpu {

// Updates `count` elements with gradients that are multiplied by `factor`. The arrays
// do not overlap.
using AdamWBlock = void (*)(const AdamWScalars& scalars, const float* gradient, float factor,
                            int64_t count, float* master, float* first_moment,
                            float* second_moment);

// With the instructions that the program is built for, and with AVX-512: the same bits.
extern const AdamWBlock kAdamWBlock;
extern const AdamWBlock kAdamWBlockAvx512;

// The quicker of those that this machine can run.
AdamWBlock ChooseAdamWBlock();

}  // namespace tessera::kernels::cpu

#endif  // TESSERA_KERNELS_CPU_ADAMW_BLOCK_H_
