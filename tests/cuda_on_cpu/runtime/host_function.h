#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_HOST_FUNCTION_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_HOST_FUNCTION_H_

#include <memory>
#include <mutex>

#include "tests/cuda_on_cpu/runtime/stream.h"

namespace tessera::cuda_on_cpu {

// Hands the host function at the head of `stream` to a thread that each device has for
// them. It runs there without the lock, and may wait for other threads of the program.
void StartHostFunction(const std::shared_ptr<Stream>& stream, std::unique_lock<std::mutex>& lock);

// Whether the calling thread is in a host function.
bool InHostFunction();

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_HOST_FUNCTION_H_
