#include "kernels/rmsnorm.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/normalization_reference.h"

namespace tessera::kernels {
namespace {

struct Case {
  int64_t rows, width;
};
constexpr Case kCases[] = {{3, 1}, {3, 5}, {255, 48}, {3, 768}, {2, 1600}};

class CudaRmsNormTest : public CudaTest {};

// A forward with a residual, then a backward through it and round it. Operands are x,
// residual, sum, weight, out, rstd, d_out, d_x and d_weight.
absl::Status ForwardAndBackward(Lane& lane, const std::vector<Tensor>& t) {
  TESSERA_RETURN_IF_ERROR(RmsNormForward(lane, t[0], &t[1], &t[2], t[3], t[4], t[5]));
  return RmsNormBackward(lane, t[6], t[2], t[3], t[5], &t[1], t[7], t[8],
                         static_cast<std::byte*>(t.back().data));
}

TEST_F(CudaRmsNormTest, MatchesDoubles) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(testing::Message() << c.rows << " rows of " << c.width);
      const Array x = RandomArray(dtype, {c.rows, c.width}, 1);
      const Array residual = RandomArray(dtype, {c.rows, c.width}, 2);
      const Array weight = RandomArray(dtype, {c.width}, 3);
      const Array d_out = RandomArray(dtype, {c.rows, c.width}, 4);
      const Array output(dtype, {c.rows, c.width});
      const Array rstd(DType::kFloat32, {c.rows});
      const Array d_weight(dtype, {c.width});
      const std::vector<Array> results = RunKernel(
          lane(), {&x, &residual, &output, &weight, &output, &rstd, &d_out, &output, &d_weight},
          ForwardAndBackward, RmsNormBackwardWorkspace(c.rows, c.width));
      const Normalization reference = {/*centred=*/false, static_cast<double>(kRmsNormEpsilon),
                                       weight.values(), std::vector<double>(c.width)};
      const std::vector<double> sum = results[2].values();
      ExpectClose(results[4], reference.Forward(sum), Tolerance(dtype));
      Normalization::Gradients expected = reference.Backward(sum, d_out.values());
      const std::vector<double> extra = residual.values();
      for (size_t i = 0; i < extra.size(); ++i) expected.x[i] += extra[i];
      ExpectClose(results[7], expected.x, Tolerance(dtype));
      ExpectClose(results[8], expected.weight, Tolerance(dtype), 10);
    }
  }
}

}  // namespace
}  // namespace tessera::kernels
