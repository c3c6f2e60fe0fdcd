#include "kernels/testing/attention_reference.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

TEST(AttentionReference, GradientAgreesWithFiniteDifferences) {
  for (const AttentionCase& c :
       {AttentionCase{1, 5, 2, 2, 3, 0.3f}, {2, 4, 4, 2, 3}, {1, 4, 3, 1, 2, 0.3f}}) {
    SCOPED_TRACE(c.Name());
    const std::vector<double> qkv = RandomArray(DType::kFloat64, c.Qkv(), 1).values();
    const std::vector<double> d_out = RandomArray(DType::kFloat64, c.Out(), 2).values();
    const std::vector<double> expected = FiniteDifferences(
        [&](const std::vector<double>& point) {
          const std::vector<double> out = ReferenceAttention(c, point).out;
          double sum = 0;
          for (size_t i = 0; i < out.size(); ++i) sum += out[i] * d_out[i];
          return sum;
        },
        qkv);
    ExpectClose(Array(DType::kFloat64, c.Qkv(), ReferenceAttentionGradient(c, qkv, d_out)),
                expected, 1e-8);
  }
}

// A group's heads are as if each had a copy of its keys and values.
TEST(AttentionReference, SharedKeysAreCopies) {
  const AttentionCase shared{1, 3, 2, 1, 2};
  const AttentionCase copied{1, 3, 2, 2, 2};
  const std::vector<double> qkv = RandomArray(DType::kFloat64, shared.Qkv(), 1).values();
  std::vector<double> copies;
  for (int row = 0; row < 3; ++row) {
    const double* const q = &qkv[row * 8];
    for (const int i : {0, 1, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7}) copies.push_back(q[i]);
  }
  EXPECT_EQ(ReferenceAttention(shared, qkv).out, ReferenceAttention(copied, copies).out);
}

}  // namespace
}  // namespace tessera::kernels
