#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_MEMORY_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_MEMORY_H_

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

// Memory of devices, and pinned memory of the host. Both lie in the host's heap, each
// allocation between guard zones, and start with all bits set. With the lock held.
namespace tessera::cuda_on_cpu {

enum class MemoryPlace : uint8_t { kPageable, kPinned, kDevice };

struct Allocation {
  size_t bytes = 0;
  int device = 0;
  MemoryPlace place = MemoryPlace::kPageable;
  size_t offset = 0;  // of the address that was asked for

  bool Holds(size_t count) const { return offset + count <= bytes; }
};

// What `address` points into, or one past the end of; kPageable if into neither.
Allocation FindAllocation(const void* address);

cudaError_t Allocate(void** address, size_t bytes, MemoryPlace place);
// Of an address that Allocate returned: InvalidValue for others.
cudaError_t Free(void* address, MemoryPlace place);
size_t DeviceBytesInUse(int device);

// Reports `address` unless the device can use that many bytes there.
void CheckDeviceCanUse(const void* address, size_t bytes, int device, const char* what);

// Reports an allocation whose guard zones were written; `what` has just run.
void CheckGuards(const char* what);

// With AddressSanitizer: the program may not touch a device's memory but while the
// device works.
void OpenDeviceMemory();
void CloseDeviceMemory();

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_MEMORY_H_
