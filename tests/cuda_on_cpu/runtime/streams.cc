#include <cuda_runtime_api.h>

#include <atomic>

#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/device.h"
#include "tests/cuda_on_cpu/runtime/stream_handle.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {

std::shared_ptr<Stream> StreamOf(cudaStream_t handle, const char* what) {
  auto stream = handle == nullptr || handle == cudaStreamLegacy ? DefaultStream(CurrentDevice())
                                                                : handle->stream;
  if (stream->device != CurrentDevice()) {
    Report("%s in a stream of device %d, and the current device is %d", what, stream->device,
           CurrentDevice());
  }
  return stream;
}

void WaitFor(const Position& position, const char* name) {
  BlockUntil([&position] { return position.Reached(); }, name);
  if (position.token != nullptr) TsanAcquire(position.token.get());
}

}  // namespace tessera::cuda_on_cpu

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags, int /*priority*/) {
  const ApiCall call("cudaStreamCreateWithPriority");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  *handle = new CUstream_st{CreateStream(CurrentDevice(), (flags & cudaStreamNonBlocking) == 0)};
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  return cudaStreamCreateWithPriority(handle, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  const ApiCall call("cudaDeviceGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return Return(DeviceError());
}

// Waits, where CUDA would return and let the work end.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  const ApiCall call("cudaStreamDestroy");
  WaitFor(Tail(handle->stream), "cudaStreamDestroy");
  DestroyStream(handle->stream);
  delete handle;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  const ApiCall call("cudaStreamSynchronize");
  WaitFor(Tail(StreamOf(handle, "cudaStreamSynchronize")), "cudaStreamSynchronize");
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const ApiCall call("cudaStreamQuery");
  const Position tail = Tail(StreamOf(handle, "cudaStreamQuery"));
  PollOnce();
  if (!tail.Reached()) return cudaErrorNotReady;
  if (tail.token != nullptr) TsanAcquire(tail.token.get());
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  const ApiCall call("cudaLaunchHostFunc");
  const auto done = std::make_shared<std::atomic<bool>>(false);
  Enqueue(StreamOf(handle, "cudaLaunchHostFunc"), {.name = "a host function",
                                                   .run =
                                                       [function, data, done] {
                                                         function(data);
                                                         *done = true;
                                                       },
                                                   .done = [done] { return done->load(); },
                                                   .on_host_thread = true});
  return cudaSuccess;
}
