#include "tests/cuda_on_cpu/grid.h"

#include <cstdint>
#include <numeric>

#include "tests/cuda_on_cpu/async_copy.h"
#include "tests/cuda_on_cpu/block_scheduler.h"
#include "tests/cuda_on_cpu/built_in_variables.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/shared_memory.h"
#include "tests/cuda_on_cpu/thread_order.h"

dim3 gridDim;
dim3 blockDim;
uint3 blockIdx;

namespace tessera::cuda_on_cpu {

void RunGrid(const char* name, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
             const std::function<void()>& kernel) {
  SetRunning(name);
  BeginLaunch();
  gridDim = grid;
  blockDim = block;
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  // Every block once: from somewhere, in steps that share no factor with their number.
  uint64_t b = Random() % blocks;
  uint64_t step = 1 + Random() % blocks;
  while (std::gcd(step, blocks) != 1) ++step;
  for (uint64_t i = 0; i < blocks; ++i) {
    blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                static_cast<unsigned>(b / grid.x / grid.y)};
    BeginSharedMemory(dynamic_shared_bytes);
    RunThreads(block, kernel);
    EndSharedMemory();
    ForgetCopies();
    b = (b + step) % blocks;
  }
  SetRunning(nullptr);
}

}  // namespace tessera::cuda_on_cpu
