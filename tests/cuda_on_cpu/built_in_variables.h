#ifndef TESSERA_TESTS_CUDA_ON_CPU_BUILT_IN_VARIABLES_H_
#define TESSERA_TESTS_CUDA_ON_CPU_BUILT_IN_VARIABLES_H_

#include <vector_types.h>

// CUDA's variables in kernels, by its names: of the thread that runs, for one at a
// time does.
extern dim3 gridDim;
extern dim3 blockDim;
extern uint3 blockIdx;
extern uint3 threadIdx;
constexpr int warpSize = 32;

#endif  // TESSERA_TESTS_CUDA_ON_CPU_BUILT_IN_VARIABLES_H_
