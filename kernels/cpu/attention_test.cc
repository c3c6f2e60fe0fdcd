#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

struct Case {
  int64_t batch = 1;
  int64_t time = 1;
  int64_t heads = 1;
  int64_t head_size = 1;
  float dropout = 0;

  Shape Qkv() const { return {batch, time, 3 * heads * head_size}; }
  Shape Out() const { return {batch, time, heads * head_size}; }
  Shape Sums() const { return {batch, heads, time}; }
  std::string Name() const {
    return absl::StrCat(batch, " sequences of ", time, ", ", heads, " heads of ", head_size,
                        ", dropout ", dropout);
  }
};

const RandomKey kKey{/*seed=*/5, RandomPurpose::kDropout, /*stream=*/3, /*micro_batch=*/2,
                     /*step=*/7};

struct Reference {
  std::vector<double> out;
  std::vector<double> log_sum_exp;
};

Reference Forward(const Case& c, const std::vector<double>& qkv) {
  const int64_t width = c.heads * c.head_size;
  Reference reference;
  reference.out.resize(static_cast<size_t>(c.batch * c.time * width));
  for (int64_t head = 0; head < c.batch * c.heads; ++head) {
    const int64_t b = head / c.heads;
    const int64_t channel = head % c.heads * c.head_size;
    const auto at = [&](int64_t time, int64_t part, int64_t i) {
      return qkv[(b * c.time + time) * 3 * width + part * width + channel + i];
    };
    for (int64_t i = 0; i < c.time; ++i) {
      std::vector<double> p;
      double sum = 0;
      for (int64_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (int64_t l = 0; l < c.head_size; ++l) dot += at(i, 0, l) * at(j, 1, l);
        p.push_back(std::exp(dot / std::sqrt(c.head_size)));
        sum += p.back();
      }
      reference.log_sum_exp.push_back(std::log(sum));
      for (int64_t j = 0; j <= i; ++j) {
        const uint64_t element = (head * c.time + i) * c.time + j;
        if (UnitFloat(kKey.Word(element)) < c.dropout) continue;
        for (int64_t l = 0; l < c.head_size; ++l) {
          reference.out[(b * c.time + i) * width + channel + l] +=
              p[j] / sum / (1 - c.dropout) * at(j, 2, l);
        }
      }
    }
  }
  return reference;
}

// The gradient of sum(out * d_out), by the chain rule with whole matrices.
std::vector<double> Backward(const Case& c, const std::vector<double>& qkv,
                             const std::vector<double>& d_out) {
  const int64_t width = c.heads * c.head_size;
  std::vector<double> gradient(qkv.size());
  for (int64_t head = 0; head < c.batch * c.heads; ++head) {
    const int64_t b = head / c.heads;
    const int64_t channel = head % c.heads * c.head_size;
    const auto index = [&](int64_t time, int64_t part, int64_t l) {
      return (b * c.time + time) * 3 * width + part * width + channel + l;
    };
    for (int64_t i = 0; i < c.time; ++i) {
      std::vector<double> p(i + 1);
      std::vector<double> dp(i + 1);
      double sum = 0;
      for (int64_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (int64_t l = 0; l < c.head_size; ++l) dot += qkv[index(i, 0, l)] * qkv[index(j, 1, l)];
        p[j] = std::exp(dot / std::sqrt(c.head_size));
        sum += p[j];
      }
      double mean = 0;
      for (int64_t j = 0; j <= i; ++j) {
        p[j] /= sum;
        const bool kept = UnitFloat(kKey.Word((head * c.time + i) * c.time + j)) >= c.dropout;
        const double factor = kept ? 1 / (1 - c.dropout) : 0;
        for (int64_t l = 0; l < c.head_size; ++l) {
          const double d = d_out[(b * c.time + i) * width + channel + l];
          dp[j] += d * qkv[index(j, 2, l)] * factor;
          gradient[index(j, 2, l)] += p[j] * factor * d;
        }
        mean += p[j] * dp[j];
      }
      for (int64_t j = 0; j <= i; ++j) {
        const double ds = p[j] * (dp[j] - mean) / std::sqrt(c.head_size);
        for (int64_t l = 0; l < c.head_size; ++l) {
          gradient[index(i, 0, l)] += ds * qkv[index(j, 1, l)];
          gradient[index(j, 1, l)] += ds * qkv[index(i, 0, l)];
        }
      }
    }
  }
  return gradient;
}

struct Result {
  Result(const Case& c, DType dtype)
      : out(dtype, c.Out()), log_sum_exp(DType::kFloat32, c.Sums()), d_qkv(dtype, c.Qkv()) {}

  Array out;
  Array log_sum_exp;
  Array d_qkv;
};

Result RunBoth(const Case& c, const Array& qkv, const Array& d_out, Lane& lane) {
  Result result(c, qkv.tensor().dtype);
  EXPECT_TRUE(AttentionForward(lane, qkv.tensor(), c.heads, c.dropout, kKey, result.out.tensor(),
                               result.log_sum_exp.tensor())
                  .ok());
  EXPECT_TRUE(AttentionBackward(lane, qkv.tensor(), result.out.tensor(),
                                result.log_sum_exp.tensor(), d_out.tensor(), c.heads, c.dropout,
                                kKey, result.d_qkv.tensor(), nullptr)
                  .ok());
  return result;
}

class AttentionTest : public testing::TestWithParam<DType> {};

TEST_P(AttentionTest, AgreesWithDoublePrecision) {
  InlineLane lane(2);
  for (const Case& c : {Case{1, 1, 1, 1}, Case{2, 1, 3, 5}, Case{1, 17, 2, 5, 0.3f},
                        Case{3, 17, 4, 64}, Case{1, 65, 1, 128, 0.1f}, Case{2, 130, 3, 32, 0.2f}}) {
    SCOPED_TRACE(c.Name());
    const Array qkv = RandomArray(GetParam(), c.Qkv(), 1, 1.5);
    const Array d_out = RandomArray(GetParam(), c.Out(), 2);
    const Result result = RunBoth(c, qkv, d_out, lane);
    const Reference reference = Forward(c, qkv.values());
    // P, dS and out are rounded on the way.
    const double tolerance = GetParam() == DType::kBFloat16 ? 1.5 * Tolerance(GetParam()) : 1e-5;
    ExpectClose(result.out, reference.out, tolerance, 0.5);
    ExpectClose(result.log_sum_exp, reference.log_sum_exp, 1e-5);
    ExpectClose(result.d_qkv, Backward(c, qkv.values(), d_out.values()), tolerance,
                c.head_size > 100 ? 2 : 1);
  }
}

TEST_P(AttentionTest, SameBitsForAnyNumberOfThreads) {
  const Case c{2, 130, 3, 16, 0.1f};
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
  const Case c{1, 3, 1, 4};
  const Array qkv = RandomArray(GetParam(), c.Qkv(), 1, 60);
  const Array d_out = RandomArray(GetParam(), c.Out(), 2);
  const Result result = RunBoth(c, qkv, d_out, lane);
  for (const Array* array : {&result.out, &result.log_sum_exp, &result.d_qkv}) {
    for (const double value : array->values()) EXPECT_TRUE(std::isfinite(value));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, AttentionTest, testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

TEST(Attention, ReferenceGradientAgreesWithFiniteDifferences) {
  const Case c{1, 5, 2, 3, 0.3f};
  const std::vector<double> qkv = RandomArray(DType::kFloat64, c.Qkv(), 1).values();
  const std::vector<double> d_out = RandomArray(DType::kFloat64, c.Out(), 2).values();
  const std::vector<double> expected = FiniteDifferences(
      [&](const std::vector<double>& point) {
        const std::vector<double> out = Forward(c, point).out;
        double sum = 0;
        for (size_t i = 0; i < out.size(); ++i) sum += out[i] * d_out[i];
        return sum;
      },
      qkv);
  ExpectClose(Array(DType::kFloat64, c.Qkv(), Backward(c, qkv, d_out)), expected, 1e-8);
}

// What comes later must not matter: to the bit, for every block that rows fall into.
TEST(Attention, IsCausal) {
  constexpr int64_t kLength = 300;
  constexpr int64_t kWidth = 64;
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Array qkv = RandomArray(dtype, {1, kLength, 3 * kWidth}, 1);
    Array out(dtype, {1, kLength, kWidth});
    Array log_sum_exp(DType::kFloat32, {1, 2, kLength});
    ASSERT_EQ(
        AttentionForward(lane, qkv.tensor(), 2, 0, RandomKey{}, out.tensor(), log_sum_exp.tensor()),
        absl::OkStatus());
    for (int64_t cut : {int64_t{1}, int64_t{127}, int64_t{128}, int64_t{129}, int64_t{255},
                        int64_t{256}, int64_t{299}}) {
      std::vector<double> values = qkv.values();
      for (size_t i = cut * 3 * kWidth; i < values.size(); ++i) values[i] = -3 * values[i] + 1;
      const Array changed(dtype, {1, kLength, 3 * kWidth}, values);
      Array changed_out(dtype, {1, kLength, kWidth});
      ASSERT_EQ(AttentionForward(lane, changed.tensor(), 2, 0, RandomKey{}, changed_out.tensor(),
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
  const Case c{1, 4, 1, 2};
  const Array qkv = RandomArray(DType::kFloat32, c.Qkv(), 1);
  const Array out(DType::kFloat32, c.Out());
  ASSERT_TRUE(AttentionForward(lane, qkv.tensor(), 1, 0, kKey, out.tensor(), Tensor{}).ok());
  ExpectClose(out, Forward(c, qkv.values()).out, 1e-5);
}

}  // namespace
}  // namespace tessera::kernels
