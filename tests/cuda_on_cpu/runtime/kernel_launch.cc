#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tests/cuda_on_cpu/grid.h"
#include "tests/cuda_on_cpu/launch.h"
#include "tests/cuda_on_cpu/pretend.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/device.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/stream.h"
#include "tests/cuda_on_cpu/runtime/stream_handle.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr size_t kDefaultSharedBytes = 48 << 10;

std::map<const void*, size_t>& SharedLimits() {
  static auto& limits = *new std::map<const void*, size_t>;
  return limits;
}

size_t SharedLimit(const void* kernel) {
  const auto found = SharedLimits().find(kernel);
  return found == SharedLimits().end() ? kDefaultSharedBytes
                                       : std::max(kDefaultSharedBytes, found->second);
}

bool ExtentsAreValid(dim3 grid, dim3 block) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  return grid.x != 0 && grid.x <= 0x7FFFFFFF && grid.y != 0 && grid.y <= 65535 && grid.z != 0 &&
         grid.z <= 65535 && threads != 0 && threads <= 1024 && block.z <= 64;
}

}  // namespace

void EnqueueKernel(const void* kernel, const char* name, dim3 grid, dim3 block,
                   size_t dynamic_shared_bytes, cudaStream_t handle,
                   const std::vector<KernelArgument>& arguments, std::function<void()> body) {
  const ApiCall call(name);
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) {
    Return(error);
    return;
  }
  if (Pretended().architecture < 80) {
    Return(cudaErrorNoKernelImageForDevice);
    return;
  }
  if (!ExtentsAreValid(grid, block)) {
    Return(cudaErrorInvalidConfiguration);
    return;
  }
  if (dynamic_shared_bytes > SharedLimit(kernel)) {
    Return(cudaErrorInvalidValue);
    return;
  }
  const std::shared_ptr<Stream> stream = StreamOf(handle, name);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].is_pointer || arguments[i].pointer == nullptr) continue;
    const Allocation allocation = FindAllocation(arguments[i].pointer);
    if (allocation.place == MemoryPlace::kPageable) {
      Report("argument %zu of kernel %s points to memory that the device cannot reach", i, name);
    }
    if (allocation.place == MemoryPlace::kDevice && allocation.device != stream->device) {
      Report("argument %zu of kernel %s points to memory of device %d, on device %d", i, name,
             allocation.device, stream->device);
    }
  }
  Enqueue(stream, {.name = name, .run = [=, body = std::move(body)] {
                     RunGrid(name, grid, block, dynamic_shared_bytes, body);
                   }});
}

}  // namespace tessera::cuda_on_cpu

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  const ApiCall call("cudaFuncSetAttribute");
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
      static_cast<size_t>(value) > MaxSharedBytes()) {
    return Return(cudaErrorInvalidValue);
  }
  SharedLimits()[kernel] = static_cast<size_t>(value);
  return cudaSuccess;
}
