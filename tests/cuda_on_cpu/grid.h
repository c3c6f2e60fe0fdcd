#ifndef TESSERA_TESTS_CUDA_ON_CPU_GRID_H_
#define TESSERA_TESTS_CUDA_ON_CPU_GRID_H_

#include <vector_types.h>

#include <cstddef>
#include <functional>

namespace tessera::cuda_on_cpu {

// Runs `kernel` once for each thread of each block, here and now: block after block,
// in an order drawn from the seed.
void RunGrid(const char* name, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
             const std::function<void()>& kernel);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_GRID_H_
