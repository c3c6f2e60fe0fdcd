#include "kernels/attention.h"

#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/sanitizers.h"
#include "core/status.h"
#include "gtest/gtest.h"
#include "kernels/testing/attention_reference.h"
#include "kernels/testing/cuda_test_util.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

struct Result {
  Array out;
  Array log_sum_exp;
  Array d_qkv;
};

class CudaAttentionTest : public CudaTest, public testing::WithParamInterface<DType> {
 protected:
  Result RunBoth(const AttentionCase& c, const Array& qkv, const Array& d_out) {
    const Array out(GetParam(), c.Out());
    const Array log_sum_exp(DType::kFloat32, c.Sums());
    const Array d_qkv(GetParam(), c.Qkv());
    std::vector<Array> after = RunKernel(
        lane(), {&qkv, &d_out, &out, &log_sum_exp, &d_qkv},
        [&](Lane& lane, const std::vector<Tensor>& t) {
          TESSERA_RETURN_IF_ERROR(
              AttentionForward(lane, t[0], c.heads, c.kv_heads, c.dropout, c.key, t[2], t[3]));
          return AttentionBackward(lane, t[0], t[2], t[3], t[1], c.heads, c.kv_heads, c.dropout,
                                   c.key, t[4], static_cast<std::byte*>(t[5].data));
        },
        AttentionBackwardWorkspace(c.batch, c.heads, c.length));
    return {std::move(after[2]), std::move(after[3]), std::move(after[4])};
  }

  void ExpectRight(const AttentionCase& c) {
    SCOPED_TRACE(c.Name());
    const Array qkv = RandomArray(GetParam(), c.Qkv(), 1, 1.5);
    const Array d_out = RandomArray(GetParam(), c.Out(), 2);
    const Result result = RunBoth(c, qkv, d_out);
    const AttentionResult reference = ReferenceAttention(c, qkv.values());
    // P, dS and out are rounded on the way.
    const double tolerance = GetParam() == DType::kBFloat16 ? 1.5 * Tolerance(GetParam()) : 1e-5;
    const double terms = static_cast<double>(c.heads / c.kv_heads) * (c.head_size > 100 ? 2 : 1);
    ExpectClose(result.out, reference.out, tolerance, 0.5);
    ExpectClose(result.log_sum_exp, reference.log_sum_exp, 1e-5);
    ExpectClose(result.d_qkv, ReferenceAttentionGradient(c, qkv.values(), d_out.values()),
                tolerance, terms);
  }
};

using Sizes = std::vector<int64_t>;

// One row, a part of a tile, a tile, more than one of each kernel's tiles.
TEST_P(CudaAttentionTest, Lengths) {
  for (const int64_t length : kSanitized ? Sizes{1, 17, 70} : Sizes{1, 3, 17, 64, 100, 255}) {
    ExpectRight({.length = length, .heads = 2, .kv_heads = 2, .head_size = 32});
  }
}

// Those that are compiled, and those padded to them, with rows of whole 16 bytes and not.
TEST_P(CudaAttentionTest, HeadSizes) {
  for (const int64_t head_size :
       kSanitized ? Sizes{5, 40, 128} : Sizes{1, 5, 16, 20, 40, 64, 80, 128, 200, 256}) {
    ExpectRight({.length = 70, .heads = 2, .kv_heads = 2, .head_size = head_size});
  }
}

TEST_P(CudaAttentionTest, DropoutDropsWhatTheKeySays) {
  for (const int64_t length : kSanitized ? Sizes{35} : Sizes{3, 17, 130}) {
    ExpectRight({.batch = 2,
                 .length = length,
                 .heads = 2,
                 .kv_heads = 2,
                 .head_size = 24,
                 .dropout = 0.3f});
  }
  for (const int64_t head_size : kSanitized ? Sizes{64} : Sizes{64, 128, 256}) {
    ExpectRight({.length = 68, .head_size = head_size, .dropout = 0.1f});
  }
}

TEST_P(CudaAttentionTest, HeadsShareKeys) {
  ExpectRight({.batch = 2, .length = 40, .heads = 4, .kv_heads = 2, .head_size = 16});
  ExpectRight({.length = kSanitized ? 33 : 135,
               .heads = 3,
               .kv_heads = 1,
               .head_size = 64,
               .dropout = 0.2f});
}

// With ThreadSanitizer that takes minutes: TESSERA_LONG=1 does it even so.
TEST_P(CudaAttentionTest, LongSequence) {
  const bool shorter = kThreadSanitized && std::getenv("TESSERA_LONG") == nullptr;
  ExpectRight({.length = shorter ? 140 : 1024, .head_size = 64});
}

TEST_P(CudaAttentionTest, ScoresTooLargeToExponentiate) {
  const AttentionCase c{.length = 70, .head_size = 4};
  const Array qkv = RandomArray(GetParam(), c.Qkv(), 1, 60);
  const Array d_out = RandomArray(GetParam(), c.Out(), 2);
  const Result result = RunBoth(c, qkv, d_out);
  for (const Array* array : {&result.out, &result.log_sum_exp, &result.d_qkv}) {
    for (const double value : array->values()) ASSERT_TRUE(std::isfinite(value));
  }
}

// What comes later must not matter: to the bit, for every tile that rows fall into.
TEST_P(CudaAttentionTest, IsCausal) {
  const AttentionCase c{.length = 140, .head_size = 32};
  const Array qkv = RandomArray(GetParam(), c.Qkv(), 1);
  const Array d_out = RandomArray(GetParam(), c.Out(), 2);
  const std::vector<double> before = RunBoth(c, qkv, d_out).out.values();
  for (const int64_t cut : kSanitized ? Sizes{32, 127} : Sizes{1, 31, 32, 63, 64, 127, 128, 139}) {
    std::vector<double> values = qkv.values();
    for (size_t i = cut * 3 * c.head_size; i < values.size(); ++i) values[i] = 1 - 3 * values[i];
    const std::vector<double> after =
        RunBoth(c, Array(GetParam(), c.Qkv(), values), d_out).out.values();
    for (int64_t i = 0; i < cut * c.head_size; ++i) ASSERT_EQ(before[i], after[i]) << cut;
    EXPECT_NE(before[cut * c.head_size], after[cut * c.head_size]);
  }
}

TEST_P(CudaAttentionTest, LogSumExpMayBeAbsent) {
  const AttentionCase c{.length = 5, .head_size = 8};
  const Array qkv = RandomArray(GetParam(), c.Qkv(), 1);
  const DeviceArray device_qkv(qkv);
  const DeviceArray out(GetParam(), c.Out());
  ASSERT_EQ(AttentionForward(lane(), device_qkv.tensor(), 1, 1, 0, c.key, out.tensor(), Tensor{}),
            absl::OkStatus());
  ExpectClose(out.Download(), ReferenceAttention(c, qkv.values()).out, 1.5 * Tolerance(GetParam()),
              0.5);
}

TEST_P(CudaAttentionTest, HeadsTooLarge) {
  const AttentionCase c{.head_size = 257};
  const DeviceArray qkv(GetParam(), c.Qkv());
  const DeviceArray out(GetParam(), c.Out());
  EXPECT_EQ(AttentionForward(lane(), qkv.tensor(), 1, 1, 0, c.key, out.tensor(), Tensor{}).code(),
            absl::StatusCode::kUnimplemented);
}

INSTANTIATE_TEST_SUITE_P(DTypes, CudaAttentionTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tessera::kernels
