#ifndef TESSERA_TESTS_CUDA_ON_CPU_DEVICE_LANGUAGE_H_
#define TESSERA_TESTS_CUDA_ON_CPU_DEVICE_LANGUAGE_H_

// Included by the compiler before a .cu file that it compiles for the processor: what
// nvcc knows by itself, in the same words.

#ifdef __CUDACC__
#error "nvcc has a device language of its own."
#endif

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cmath>

#include "tests/cuda_on_cpu/async_copy.h"
#include "tests/cuda_on_cpu/built_in_variables.h"
#include "tests/cuda_on_cpu/device_atomics.h"
#include "tests/cuda_on_cpu/device_intrinsics.h"
#include "tests/cuda_on_cpu/device_synchronization.h"
#include "tests/cuda_on_cpu/launch.h"
#include "tests/cuda_on_cpu/shared_memory.h"
#include "tests/cuda_on_cpu/tensor_core.h"

#undef __launch_bounds__
#define __launch_bounds__(...)

#endif  // TESSERA_TESTS_CUDA_ON_CPU_DEVICE_LANGUAGE_H_
