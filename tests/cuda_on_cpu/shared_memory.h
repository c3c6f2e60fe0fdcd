#ifndef TESSERA_TESTS_CUDA_ON_CPU_SHARED_MEMORY_H_
#define TESSERA_TESTS_CUDA_ON_CPU_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>

namespace tessera::cuda_on_cpu {

// Shared memory of the running block. Each array has guard zones on both sides, and
// starts with all bits set (NaN, as floats).
//
// BeginSharedMemory before a block's threads run; EndSharedMemory after, reports what
// was written past the end of an array.
void BeginSharedMemory(size_t dynamic_bytes);
void EndSharedMemory();

void* DynamicSharedMemory();

// Where one declaration's array lies in the running block.
struct SharedArray {
  uint64_t block = 0;
  size_t offset = 0;
};
void* StaticSharedMemory(SharedArray& array, size_t bytes, const char* name);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_SHARED_MEMORY_H_
