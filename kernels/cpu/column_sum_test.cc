#include "kernels/column_sum.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

Array SumOf(Lane& lane, const Array& x, DType out_dtype) {
  const Shape& shape = x.tensor().shape;
  Array out(out_dtype, {shape[1]});
  const Array workspace(DType::kFloat32, {ColumnSumWorkspace(shape[0], shape[1]) / 4});
  EXPECT_TRUE(ColumnSum(lane, x.tensor(), out.tensor(), workspace.bytes()).ok());
  return out;
}

TEST(ColumnSum, MatchesDoubles) {
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (int64_t rows : {0, 1, 3, 64, 255}) {
      for (int64_t columns : {0, 1, 48, 513, 1600}) {
        const Array x = RandomArray(dtype, {rows, columns}, 1);
        const std::vector<double> values = x.values();
        std::vector<double> expected(columns);
        for (size_t i = 0; i < values.size(); ++i) expected[i % columns] += values[i];
        ExpectClose(SumOf(lane, x, DType::kFloat32), expected, 1e-6, 30);
        ExpectClose(SumOf(lane, x, dtype), expected, Tolerance(dtype));
      }
    }
  }
}

TEST(ColumnSum, ThreadsDoNotMatter) {
  const Array x = RandomArray(DType::kFloat32, {255, 1600}, 1);
  ExpectThreadIndependent([&](Lane& lane) {
    std::vector<Array> outputs;
    outputs.push_back(SumOf(lane, x, DType::kFloat32));
    return outputs;
  });
}

}  // namespace
}  // namespace tessera::kernels
