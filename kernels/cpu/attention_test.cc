#include "kernels/attention.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/attention_reference.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

struct Result {
  Result(const AttentionCase& c, DType dtype)
      : out(dtype, c.Out()), log_sum_exp(DType::kFloat32, c.Sums()), d_qkv(dtype, c.Qkv()) {}

  Array out;
  Array log_sum_exp;
  Array d_qkv;
};

Result RunBoth(const AttentionCase& c, const Array& qkv, const Array& d_out, Lane& lane) {
  Result result(c, qkv.tensor().dtype);
  EXPECT_TRUE(AttentionForward(lane, qkv.tensor(), c.heads, c.kv_heads, c.dropout, c.key,
                               result.out.tensor(), result.log_sum_exp.tensor())
                  .ok());
  EXPECT_TRUE(AttentionBackward(lane, qkv.tensor(), result.out.tensor(),
                                result.log_sum_exp.tensor(), d_out.tensor(), c.heads, c.kv_heads,
                                c.dropout, c.key, result.d_qkv.tensor(), nullptr)
                  .ok());
  return result;
}

class AttentionTest : public testing::TestWithParam<DType> {};

TEST_P(AttentionTest, AgreesWithDoublePrecision) {
  InlineLane lane(2);
  for (const AttentionCase& c : {AttentionCase{1, 1, 1, 1, 1},
                                 {2, 1, 3, 3, 5},
                                 {1, 17, 2, 2, 5, 0.3f},
                                 {3, 17, 4, 4, 64},
                                 {1, 65, 1, 1, 128, 0.1f},
                                 {2, 130, 3, 3, 32, 0.2f},
                                 {2, 17, 6, 2, 8},
                                 {1, 300, 2, 1, 16, 0.2f}}) {
    SCOPED_TRACE(c.Name());
    const Array qkv = RandomArray(GetParam(), c.Qkv(), 1, 1.5);
    const Array d_out = RandomArray(GetParam(), c.Out(), 2);
    const Result result = RunBoth(c, qkv, d_out, lane);
    const AttentionResult reference = ReferenceAttention(c, qkv.values());
    // P, dS and out are rounded on the way.
    const double tolerance = GetParam() == DType::kBFloat16 ? 1.5 * Tolerance(GetParam()) : 1e-5;
    ExpectClose(result.out, reference.out, tolerance, 0.5);
    ExpectClose(result.log_sum_exp, reference.log_sum_exp, 1e-5);
    const double terms = static_cast<double>(c.heads / c.kv_heads) * (c.head_size > 100 ? 2 : 1);
    ExpectClose(result.d_qkv, ReferenceAttentionGradient(c, qkv.values(), d_out.values()),
                tolerance, terms);
  }
}

TEST_P(AttentionTest, SameBitsForAnyNumberOfThreads) {
  const AttentionCase c{2, 130, 4, 2, 16, 0.1f};
  const Array qkv = RandomArray(GetParam(), c.Qkv(), 1);
  const Array d_out = RandomArray(GetParam(), c.Out(), 2);
  ExpectThreadIndependent([&](Lane& lane) {
    Result result = RunBoth(c, qkv, d_out, lane);
    std::vector<Array> outputs;
    outputs.push_back(std::move(result.out));
    outputs.push_back(std::move(result.log_sum_exp));
    outputs.push_back(std::move(result.d_qkv));
    return outputs;
  });
}

TEST_P(AttentionTest, ScoresTooLargeToExponentiate) {
  InlineLane lane(1);
  const AttentionCase c{1, 3, 1, 1, 4};
  const Array qkv = RandomArray(GetParam(), c.Qkv(), 1, 60);
  const Array d_out = RandomArray(GetParam(), c.Out(), 2);
  const Result result = RunBoth(c, qkv, d_out, lane);
  for (const Array* array : {&result.out, &result.log_sum_exp, &result.d_qkv}) {
    for (const double value : array->values()) EXPECT_TRUE(std::isfinite(value));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, AttentionTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

// What comes later must not matter: to the bit, for every block that rows fall into.
TEST(Attention, IsCausal) {
  constexpr int64_t kLength = 300;
  constexpr int64_t kWidth = 64;
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Array qkv = RandomArray(dtype, {1, kLength, 3 * kWidth}, 1);
    Array out(dtype, {1, kLength, kWidth});
    Array log_sum_exp(DType::kFloat32, {1, 2, kLength});
    ASSERT_EQ(AttentionForward(lane, qkv.tensor(), 2, 2, 0, RandomKey{}, out.tensor(),
                               log_sum_exp.tensor()),
              absl::OkStatus());
    for (int64_t cut : {int64_t{1}, int64_t{127}, int64_t{128}, int64_t{129}, int64_t{255},
                        int64_t{256}, int64_t{299}}) {
      std::vector<double> values = qkv.values();
      for (size_t i = cut * 3 * kWidth; i < values.size(); ++i) values[i] = -3 * values[i] + 1;
      const Array changed(dtype, {1, kLength, 3 * kWidth}, values);
      Array changed_out(dtype, {1, kLength, kWidth});
      ASSERT_EQ(AttentionForward(lane, changed.tensor(), 2, 2, 0, RandomKey{}, changed_out.tensor(),
                                 log_sum_exp.tensor()),
                absl::OkStatus());
      const std::vector<double> before = out.values();
      const std::vector<double> after = changed_out.values();
      for (int64_t i = 0; i < cut * kWidth; ++i) ASSERT_EQ(before[i], after[i]) << cut << " " << i;
      EXPECT_NE(before[cut * kWidth], after[cut * kWidth]);
    }
  }
}

TEST(Attention, LogSumExpMayBeAbsent) {
  InlineLane lane(1);
  const AttentionCase c{1, 4, 1, 1, 2};
  const Array qkv = RandomArray(DType::kFloat32, c.Qkv(), 1);
  const Array out(DType::kFloat32, c.Out());
  ASSERT_TRUE(AttentionForward(lane, qkv.tensor(), 1, 1, 0, c.key, out.tensor(), Tensor{}).ok());
  ExpectClose(out, ReferenceAttention(c, qkv.values()).out, 1e-5);
}

}  // namespace
}  // namespace tessera::kernels
