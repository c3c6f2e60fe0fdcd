#ifndef TESSERA_TESTS_CUDA_ON_CPU_NCCL_DATA_H_
#define TESSERA_TESTS_CUDA_ON_CPU_NCCL_DATA_H_

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace tessera::cuda_on_cpu {

size_t ElementBytes(ncclDataType_t type);

// The elements of all `sources`, combined one by one in an order drawn from the seed:
// NCCL promises none. Reports a type or an operation that the double does not know.
std::vector<char> Reduce(const std::vector<const void*>& sources, size_t count, ncclDataType_t type,
                         ncclRedOp_t operation);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_NCCL_DATA_H_
