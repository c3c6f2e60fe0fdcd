#include <cuda_runtime_api.h>

#include <algorithm>
#include <vector>

#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/device.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/stream_handle.h"

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

namespace {

void WaitForDevice(int device, const char* name) {
  std::vector<Position> tails;
  for (const auto& stream : Streams()) {
    if (stream->device == device) tails.push_back(Tail(stream));
  }
  for (const Position& tail : tails) WaitFor(tail, name);
}

cudaError_t New(void** address, size_t bytes, MemoryPlace place) {
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  return Return(Allocate(address, bytes, place));
}

// CUDA, too, waits for the device before it frees.
cudaError_t Delete(void* address, MemoryPlace place, const char* name) {
  if (address == nullptr) return cudaSuccess;
  WaitForDevice(FindAllocation(address).device, name);
  return Return(Free(address, place));
}

}  // namespace

cudaError_t cudaMalloc(void** address, size_t bytes) {
  const ApiCall call("cudaMalloc");
  return New(address, bytes, MemoryPlace::kDevice);
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned /*flags*/) {
  const ApiCall call("cudaHostAlloc");
  return New(address, bytes, MemoryPlace::kPinned);
}

cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFree(void* address) {
  const ApiCall call("cudaFree");
  return Delete(address, MemoryPlace::kDevice, "cudaFree");
}

cudaError_t cudaFreeHost(void* address) {
  const ApiCall call("cudaFreeHost");
  return Delete(address, MemoryPlace::kPinned, "cudaFreeHost");
}

cudaError_t cudaDeviceSynchronize() {
  const ApiCall call("cudaDeviceSynchronize");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  WaitForDevice(CurrentDevice(), "cudaDeviceSynchronize");
  return cudaSuccess;
}
