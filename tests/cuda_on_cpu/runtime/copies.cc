#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/device.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/stream_handle.h"

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

namespace {

cudaMemcpyKind KindOf(const Allocation& to, const Allocation& from) {
  const bool to_device = to.place == MemoryPlace::kDevice;
  const bool from_device = from.place == MemoryPlace::kDevice;
  if (to_device) return from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
  return from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

void CheckHolds(const Allocation& allocation, size_t bytes) {
  if (allocation.place != MemoryPlace::kPageable && !allocation.Holds(bytes)) {
    Report("a copy of %zu bytes from offset %zu on, of an allocation of %zu", bytes,
           allocation.offset, allocation.bytes);
  }
}

// Stricter than CUDA, which lets `kind` be wrong where addresses are unified.
cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle,
                 bool wait, const char* name) {
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  if (bytes == 0) return cudaSuccess;
  const Allocation target = FindAllocation(to);
  const Allocation source = FindAllocation(from);
  CheckHolds(target, bytes);
  CheckHolds(source, bytes);
  const cudaMemcpyKind real = KindOf(target, source);
  if (kind != real && kind != cudaMemcpyDefault) return Return(cudaErrorInvalidValue);
  // Of pageable memory CUDA takes a copy before it returns, or waits for the end.
  std::shared_ptr<std::vector<char>> staged;
  if (real == cudaMemcpyHostToDevice && source.place == MemoryPlace::kPageable) {
    const char* begin = static_cast<const char*>(from);
    staged = std::make_shared<std::vector<char>>(bytes);
    std::memcpy(staged->data(), begin, bytes);
  }
  if (real == cudaMemcpyDeviceToHost && target.place == MemoryPlace::kPageable) wait = true;
  if (real == cudaMemcpyHostToHost) wait = true;
  const Position end = Enqueue(StreamOf(handle, name),
                               {.name = name, .run = [to, from, bytes, staged = std::move(staged)] {
                                  std::memcpy(to, staged != nullptr ? staged->data() : from, bytes);
                                }});
  if (wait) WaitFor(end, name);
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  const ApiCall call("cudaMemcpyAsync");
  return Copy(to, from, bytes, kind, handle, false, "cudaMemcpyAsync");
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const ApiCall call("cudaMemcpy");
  return Copy(to, from, bytes, kind, nullptr, true, "cudaMemcpy");
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  const ApiCall call("cudaMemsetAsync");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  if (bytes == 0) return cudaSuccess;
  CheckDeviceCanUse(to, bytes, CurrentDevice(), "cudaMemsetAsync");
  Enqueue(StreamOf(handle, "cudaMemsetAsync"),
          {.name = "cudaMemsetAsync", .run = [=] { std::memset(to, value, bytes); }});
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
