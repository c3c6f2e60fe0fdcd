#include "kernels/column_sum.h"

#include <vector>

#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"

namespace tessera::kernels {
namespace {

class CudaColumnSumTest : public CudaTest {};

TEST_F(CudaColumnSumTest, MatchesDoubles) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (DType out_dtype : {DType::kFloat32, dtype}) {
      for (int64_t rows : {0, 1, 3, 255}) {
        for (int64_t columns : {0, 1, 48, 513, 768, 1600, 50257}) {
          if (kSanitized && out_dtype != dtype) continue;
          // Which are slow, the more so with a sanitizer.
          if (rows * columns > (kSanitized ? 50257 : 200000)) continue;
          const Array x = RandomArray(dtype, {rows, columns}, 1);
          const Array out(out_dtype, {columns});
          const std::vector<double> values = x.values();
          std::vector<double> expected(columns);
          for (size_t i = 0; i < values.size(); ++i) expected[i % columns] += values[i];
          const std::vector<Array> results = RunKernel(
              lane(), {&x, &out},
              [](Lane& lane, const auto& t) {
                return ColumnSum(lane, t[0], t[1], static_cast<std::byte*>(t.back().data));
              },
              ColumnSumWorkspace(rows, columns));
          ExpectClose(results[1], expected, out_dtype == DType::kFloat32 ? 1e-6 : 0x1.04p-8,
                      out_dtype == DType::kFloat32 ? 30 : 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
