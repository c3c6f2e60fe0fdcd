#ifndef TESSERA_TESTS_CUDA_ON_CPU_TESTING_TENSOR_CORE_KERNELS_H_
#define TESSERA_TESTS_CUDA_ON_CPU_TESTING_TENSOR_CORE_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"

// One warp, and the registers of its lanes as they are. Pointers are to the device.
namespace tessera::cuda_on_cpu {

// For each of `count` b [count, 32, 2]: d [count, 32, 4] = a [32, 4] b + c [32, 4].
absl::Status MultiplyFragments(Lane& lane, float* d, const uint32_t* a, const uint32_t* b,
                               const float* c, int count);

// registers [32, 4] of ldmatrix, lane l's address being that of element offsets[l] of
// the `count` that lie in shared memory.
absl::Status LoadFragments(Lane& lane, uint32_t* registers, const uint16_t* elements, int count,
                           const int* offsets, bool transposed);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_TESTING_TENSOR_CORE_KERNELS_H_
