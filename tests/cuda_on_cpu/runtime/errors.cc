#include <cuda_runtime_api.h>

#include <utility>

#include "tests/cuda_on_cpu/runtime/api_call.h"

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

namespace {

struct Names {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr Names kNames[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
};

Names Find(cudaError_t error) {
  for (const Names& names : kNames) {
    if (names.error == error) return names;
  }
  return {error, "cudaErrorUnknown", "unknown error"};
}

}  // namespace

cudaError_t cudaGetLastError() { return std::exchange(LastError(), cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return LastError(); }
const char* cudaGetErrorName(cudaError_t error) { return Find(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return Find(error).text; }
