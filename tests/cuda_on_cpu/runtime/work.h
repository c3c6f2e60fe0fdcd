#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_WORK_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_WORK_H_

#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/runtime/stream.h"

// The work that streams hold, done by whichever thread asks for it. With the lock held.
namespace tessera::cuda_on_cpu {

// Streams whose next operation can be started. First takes those off that are done.
std::vector<std::shared_ptr<Stream>> StartableStreams();

// Starts, and unless it is done elsewhere finishes, the next operation of one of them.
// A host function gets a moment to end, with the lock released.
void RunOne(const std::vector<std::shared_ptr<Stream>>& startable,
            std::unique_lock<std::mutex>& lock);

// What each stream waits for, a line each.
std::string DescribeStreams();

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_WORK_H_
