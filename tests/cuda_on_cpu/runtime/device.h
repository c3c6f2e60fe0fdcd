#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_DEVICE_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_DEVICE_H_

#include <driver_types.h>

#include <cstddef>

namespace tessera::cuda_on_cpu {

// Why the machine that is pretended cannot be used at all, as every call says.
cudaError_t DeviceError();

// Of a block, if asked for: as the architecture that is pretended has it.
size_t MaxSharedBytes();

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_DEVICE_H_
