#include "tests/cuda_on_cpu/runtime/memory.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/cuda_on_cpu/pretend.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr size_t kAlignment = 256;  // of CUDA
constexpr size_t kGuardBytes = 1024;
constexpr unsigned char kGuard = 0xA5;

struct Block {
  size_t bytes;
  int device;
  MemoryPlace place;
};

std::map<uintptr_t, Block>& Blocks() {
  static auto& blocks = *new std::map<uintptr_t, Block>;
  return blocks;
}

bool device_memory_is_open = false;

[[gnu::no_sanitize_address]] void WriteGuard(uintptr_t begin) {
  auto* bytes = reinterpret_cast<volatile unsigned char*>(begin);
  for (size_t i = 0; i < kGuardBytes; ++i) bytes[i] = kGuard;
}

[[gnu::no_sanitize_address]] bool Intact(uintptr_t begin) {
  uint64_t expected = 0;
  for (size_t i = 0; i < sizeof(expected); ++i) expected = expected << 8 | kGuard;
  const auto* bytes = reinterpret_cast<const volatile unsigned char*>(begin);
  for (; reinterpret_cast<uintptr_t>(bytes) % sizeof(expected) != 0; ++bytes) {
    if (*bytes != kGuard) return false;
  }
  const auto* words = reinterpret_cast<const volatile uint64_t*>(bytes);
  const auto* end = reinterpret_cast<const volatile uint64_t*>(begin + kGuardBytes);
  for (; words + 1 <= end; ++words) {
    if (*words != expected) return false;
  }
  return true;
}

void SetDeviceMemoryOpen(bool open) {
  if (!kAddressSanitizer || open == device_memory_is_open) return;
  device_memory_is_open = open;
  for (const auto& [address, block] : Blocks()) {
    if (block.place != MemoryPlace::kDevice) continue;
    const void* begin = reinterpret_cast<const void*>(address);
    open ? UnpoisonMemory(begin, block.bytes) : PoisonMemory(begin, block.bytes);
  }
}

}  // namespace

Allocation FindAllocation(const void* address) {
  const auto target = reinterpret_cast<uintptr_t>(address);
  auto next = Blocks().upper_bound(target);
  if (next == Blocks().begin()) return {};
  const auto& [begin, block] = *--next;
  const size_t offset = target - begin;
  if (offset > block.bytes) return {};
  return {.bytes = block.bytes, .device = block.device, .place = block.place, .offset = offset};
}

cudaError_t Allocate(void** address, size_t bytes, MemoryPlace place) {
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const int device = CurrentDevice();
  if (place == MemoryPlace::kDevice &&
      DeviceBytesInUse(device) + bytes > static_cast<size_t>(Pretended().memory_bytes)) {
    return cudaErrorMemoryAllocation;
  }
  // The driver pins no more than the machine has.
  if (place == MemoryPlace::kPinned && bytes / static_cast<size_t>(sysconf(_SC_PAGESIZE)) >
                                           static_cast<size_t>(sysconf(_SC_PHYS_PAGES))) {
    return cudaErrorMemoryAllocation;
  }
  const size_t padded = (bytes + kAlignment - 1) & -kAlignment;
  void* memory = std::aligned_alloc(kAlignment, padded + 2 * kGuardBytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  const auto begin = reinterpret_cast<uintptr_t>(memory) + kGuardBytes;
  *address = reinterpret_cast<void*>(begin);
  std::memset(*address, 0xFF, bytes);
  WriteGuard(begin - kGuardBytes);
  WriteGuard(begin + bytes);
  PoisonMemory(reinterpret_cast<void*>(begin - kGuardBytes), kGuardBytes);
  PoisonMemory(reinterpret_cast<void*>(begin + bytes), padded - bytes + kGuardBytes);
  if (place == MemoryPlace::kDevice && !device_memory_is_open) PoisonMemory(*address, bytes);
  Blocks()[begin] = {.bytes = bytes, .device = device, .place = place};
  return cudaSuccess;
}

cudaError_t Free(void* address, MemoryPlace place) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto found = Blocks().find(begin);
  if (found == Blocks().end() || found->second.place != place) return cudaErrorInvalidValue;
  CheckGuards("before cudaFree");
  const size_t padded = (found->second.bytes + kAlignment - 1) & -kAlignment;
  void* memory = reinterpret_cast<void*>(begin - kGuardBytes);
  UnpoisonMemory(memory, padded + 2 * kGuardBytes);
  Blocks().erase(found);
  std::free(memory);
  return cudaSuccess;
}

size_t DeviceBytesInUse(int device) {
  size_t bytes = 0;
  for (const auto& [address, block] : Blocks()) {
    if (block.place == MemoryPlace::kDevice && block.device == device) bytes += block.bytes;
  }
  return bytes;
}

void CheckDeviceCanUse(const void* address, size_t bytes, int device, const char* what) {
  const Allocation allocation = FindAllocation(address);
  if (allocation.place == MemoryPlace::kPageable) {
    Report("%s: %p is memory that the device cannot reach", what, address);
  }
  if (allocation.place == MemoryPlace::kDevice && allocation.device != device) {
    Report("%s: memory of device %d, on device %d", what, allocation.device, device);
  }
  if (!allocation.Holds(bytes)) {
    Report("%s: %zu bytes from offset %zu on, of an allocation of %zu", what, bytes,
           allocation.offset, allocation.bytes);
  }
}

void CheckGuards(const char* what) {
  for (const auto& [begin, block] : Blocks()) {
    if (!Intact(begin - kGuardBytes)) {
      Report("%s: a write before the start of an allocation of %zu bytes", what, block.bytes);
    }
    if (!Intact(begin + block.bytes)) {
      Report("%s: a write past the end of an allocation of %zu bytes", what, block.bytes);
    }
  }
}

void OpenDeviceMemory() { SetDeviceMemoryOpen(true); }
void CloseDeviceMemory() { SetDeviceMemoryOpen(false); }

}  // namespace tessera::cuda_on_cpu
