#include "kernels/column_sum.h"

#include <algorithm>

#include "core/status.h"
#include "kernels/cuda/workspace.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(ColumnSum);
TESSERA_DECLARE_BACKENDS(ColumnSumWorkspace);

int64_t ColumnSumWorkspace(int64_t rows, int64_t columns) {
  return std::max(cpu::ColumnSumWorkspace(rows, columns),
                  RoundUpToAlignment(cuda::ColumnSumWorkspaceBytes(rows, columns)));
}

absl::Status ColumnSum(Lane& lane, const Tensor& x, const Tensor& out, std::byte* workspace) {
  TESSERA_CHECK(x.shape.back() == out.elements(), "wrong number of columns");
  TESSERA_DISPATCH(ColumnSum, lane, x, out, workspace);
}

}  // namespace tessera::kernels
