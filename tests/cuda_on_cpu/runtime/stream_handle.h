#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_STREAM_HANDLE_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_STREAM_HANDLE_H_

#include <driver_types.h>

#include <memory>

#include "tests/cuda_on_cpu/runtime/stream.h"

struct CUstream_st {
  std::shared_ptr<tessera::cuda_on_cpu::Stream> stream;
};

namespace tessera::cuda_on_cpu {

// The stream that a handle stands for. Reports one of another device than the current,
// on which `what` is about to be enqueued.
std::shared_ptr<Stream> StreamOf(cudaStream_t handle, const char* what);

// Waits in `name` until `position` is reached; what the caller does then comes after it.
void WaitFor(const Position& position, const char* name);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_STREAM_HANDLE_H_
