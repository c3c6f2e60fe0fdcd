#ifndef TESSERA_KERNELS_COLUMN_SUM_H_
#define TESSERA_KERNELS_COLUMN_SUM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels {

// Bytes of workspace for ColumnSum, 64-aligned.
int64_t ColumnSumWorkspace(int64_t rows, int64_t columns);

// out[n] = the sum over r of x[r, n]: the gradient of a bias. x is [rows, n] (or
// more dimensions, the last of n), fp32 or bf16; summed in fp32, rounded once to
// out's dtype.
absl::Status ColumnSum(Lane& lane, const Tensor& x, const Tensor& out, std::byte* workspace);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_COLUMN_SUM_H_
