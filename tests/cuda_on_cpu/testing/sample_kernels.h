#ifndef TESSERA_TESTS_CUDA_ON_CPU_TESTING_SAMPLE_KERNELS_H_
#define TESSERA_TESTS_CUDA_ON_CPU_TESTING_SAMPLE_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"

// Small correct kernels, one for each thing that the harness must do. Pointers are to
// memory of the device.
namespace tessera::cuda_on_cpu {

// out[i] = by * x[i].
absl::Status Scale(Lane& lane, float* out, const float* x, float by, int64_t count);

// out [columns, rows] is x [rows, columns] transposed, through static shared memory.
absl::Status TransposeTiles(Lane& lane, float* out, const float* x, int64_t rows, int64_t columns);

// out[r] is the sum of row r of x [rows, columns]: shuffles, then dynamic shared memory.
absl::Status SumRows(Lane& lane, float* out, const float* x, int64_t rows, int64_t columns);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_TESTING_SAMPLE_KERNELS_H_
