#include <cuda_runtime_api.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#include <memory>

#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/device.h"
#include "tests/cuda_on_cpu/runtime/stream_handle.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

namespace {

// By the kernel alone: ThreadSanitizer would see the library write into a stack that
// many of its threads share.
double Milliseconds() {
  timespec time{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

}  // namespace

struct CUevent_st {
  int device;
  bool times;
  Position position;  // of the latest record
  std::shared_ptr<double> milliseconds;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const ApiCall call("cudaEventCreateWithFlags");
  if (const cudaError_t error = DeviceError(); error != cudaSuccess) return Return(error);
  *event = new CUevent_st{.device = CurrentDevice(),
                          .times = (flags & cudaEventDisableTiming) == 0,
                          .position = {},
                          .milliseconds = nullptr};
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const ApiCall call("cudaEventDestroy");
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const ApiCall call("cudaEventRecord");
  const auto stream = StreamOf(handle, "cudaEventRecord");
  if (stream->device != event->device) return Return(cudaErrorInvalidResourceHandle);
  const auto milliseconds = std::make_shared<double>();
  event->milliseconds = milliseconds;
  event->position = Enqueue(stream, {.name = "the record of an event",
                                     .run = [milliseconds] { *milliseconds = Milliseconds(); }});
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned /*flags*/) {
  const ApiCall call("cudaStreamWaitEvent");
  Enqueue(StreamOf(handle, "cudaStreamWaitEvent"),
          {.name = "the wait for an event", .after = {event->position}});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const ApiCall call("cudaEventSynchronize");
  WaitFor(event->position, "cudaEventSynchronize");
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const ApiCall call("cudaEventQuery");
  PollOnce();
  if (!event->position.Reached()) return cudaErrorNotReady;
  if (event->position.token != nullptr) TsanAcquire(event->position.token.get());
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const ApiCall call("cudaEventElapsedTime");
  if (!start->times || !end->times || start->milliseconds == nullptr ||
      end->milliseconds == nullptr) {
    return Return(cudaErrorInvalidResourceHandle);
  }
  if (!start->position.Reached() || !end->position.Reached()) return Return(cudaErrorNotReady);
  *milliseconds = static_cast<float>(*end->milliseconds - *start->milliseconds);
  return cudaSuccess;
}
