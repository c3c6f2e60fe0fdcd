#include "tests/cuda_on_cpu/runtime/device.h"

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "tests/cuda_on_cpu/pretend.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/memory.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr int kMultiprocessors = 4;

}  // namespace

cudaError_t DeviceError() {
  if (Pretended().driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
  if (Pretended().devices == 0) return cudaErrorNoDevice;
  return cudaSuccess;
}

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
size_t MaxSharedBytes() {
  const int architecture = Pretended().architecture;
  if (architecture < 80) return 64 << 10;
  return (architecture == 80 ? 163 : architecture < 90 ? 99 : 227) << 10;
}

}  // namespace tessera::cuda_on_cpu

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

cudaError_t cudaGetDeviceCount(int* count) {
  const ApiCall call("cudaGetDeviceCount");
  *count = DeviceError() == cudaSuccess ? Pretended().devices : 0;
  return Return(DeviceError());
}

cudaError_t cudaSetDevice(int device) {
  const ApiCall call("cudaSetDevice");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  if (device < 0 || device >= Pretended().devices) return Return(cudaErrorInvalidDevice);
  CurrentDevice() = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  const ApiCall call("cudaGetDevice");
  *device = CurrentDevice();
  return Return(DeviceError());
}

cudaError_t cudaDriverGetVersion(int* version) {
  const ApiCall call("cudaDriverGetVersion");
  *version = Pretended().driver;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  const ApiCall call("cudaRuntimeGetVersion");
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  const ApiCall call("cudaDeviceGetAttribute");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = Pretended().architecture / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = Pretended().architecture % 10;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(MaxSharedBytes());
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    default:
      return Return(cudaErrorInvalidValue);
  }
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const ApiCall call("cudaGetDeviceProperties");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  if (device < 0 || device >= Pretended().devices) return Return(cudaErrorInvalidDevice);
  std::memset(static_cast<void*>(properties), 0, sizeof(*properties));
  std::snprintf(properties->name, sizeof(properties->name), "CUDA on CPU");
  properties->totalGlobalMem = static_cast<size_t>(Pretended().memory_bytes);
  properties->major = Pretended().architecture / 10;
  properties->minor = Pretended().architecture % 10;
  properties->multiProcessorCount = kMultiprocessors;
  properties->sharedMemPerBlockOptin = MaxSharedBytes();
  properties->warpSize = 32;
  properties->pciBusID = device + 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const ApiCall call("cudaDeviceGetPCIBusId");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  if (device < 0 || device >= Pretended().devices) return Return(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  const ApiCall call("cudaMemGetInfo");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  *total_bytes = static_cast<size_t>(Pretended().memory_bytes);
  *free_bytes = *total_bytes - DeviceBytesInUse(CurrentDevice());
  return cudaSuccess;
}
