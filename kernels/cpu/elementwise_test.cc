#include "kernels/elementwise.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr int64_t kSizes[] = {0, 1, 15, 1023, 1024, 1025, 100003};

TEST(SumContributions, AddsInOrderAndRoundsOnce) {
  InlineLane lane(2);
  for (DType dtype : kDTypes) {
    for (int64_t elements : kSizes) {
      const Array a = RandomArray(DType::kFloat32, {elements}, 1, 1000);
      const Array b = RandomArray(DType::kFloat32, {elements}, 2, 1);
      const Array c = RandomArray(DType::kFloat32, {elements}, 3, 1000);
      std::vector<double> expected(elements);
      for (int64_t i = 0; i < elements; ++i) {
        expected[i] =
            (a.tensor().as<float>()[i] + b.tensor().as<float>()[i]) + c.tensor().as<float>()[i];
      }
      const Array out(dtype, {elements});
      const std::vector<Tensor> list = {a.tensor(), b.tensor(), c.tensor()};
      ASSERT_TRUE(SumContributions(lane, list, out.tensor()).ok());
      EXPECT_TRUE(out.SameBits(Array(dtype, {elements}, expected)));
      ASSERT_TRUE(SumContributions(lane, list, a.tensor()).ok());  // in place
      EXPECT_TRUE(a.SameBits(Array(DType::kFloat32, {elements}, expected)));
    }
  }
}

TEST(Add, RoundsOnce) {
  InlineLane lane(2);
  for (DType dtype : kDTypes) {
    for (int64_t elements : kSizes) {
      const Array a = RandomArray(dtype, {elements}, 1, 1000);
      const Array b = RandomArray(dtype, {elements}, 2, 1);
      const std::vector<double> left = a.values();
      const std::vector<double> right = b.values();
      std::vector<double> expected(elements);
      for (int64_t i = 0; i < elements; ++i) {
        expected[i] = static_cast<float>(left[i]) + static_cast<float>(right[i]);
      }
      const Array out(dtype, {elements});
      ASSERT_TRUE(Add(lane, a.tensor(), b.tensor(), out.tensor()).ok());
      EXPECT_TRUE(out.SameBits(Array(dtype, {elements}, expected)));
      ASSERT_TRUE(Add(lane, a.tensor(), b.tensor(), a.tensor()).ok());
      EXPECT_TRUE(a.SameBits(out));
    }
  }
}

TEST(Convert, RoundsToNearest) {
  InlineLane lane(2);
  for (DType from : kDTypes) {
    for (DType to : kDTypes) {
      for (int64_t elements : kSizes) {
        const Array x = RandomArray(from, {elements}, 1);
        const Array y(to, {elements});
        ASSERT_TRUE(Convert(lane, x.tensor(), y.tensor()).ok());
        EXPECT_TRUE(y.SameBits(Array(to, {elements}, x.values())));
      }
    }
  }
}

TEST(FillZero, ClearsEveryDType) {
  InlineLane lane(2);
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
    const Array x(dtype, {20001});
    ASSERT_TRUE(FillZero(lane, x.tensor()).ok());
    EXPECT_TRUE(x.SameBits(Array(dtype, {20001}, std::vector<double>(20001))));
  }
}

TEST(Dropout, KeepsWhatTheKeySays) {
  InlineLane lane(2);
  const RandomKey key{7, RandomPurpose::kDropout, 5, 3, 11};
  for (DType dtype : kDTypes) {
    for (int64_t elements : kSizes) {
      for (float probability : {0.0f, 0.1f, 0.75f}) {
        const Array x = RandomArray(dtype, {elements}, 1);
        std::vector<double> expected = x.values();
        for (int64_t i = 0; i < elements; ++i) {
          const bool keep = UnitFloat(key.Word(i)) >= probability;
          expected[i] = keep ? static_cast<float>(expected[i]) * (1.0f / (1.0f - probability)) : 0;
        }
        const Array y(dtype, {elements});
        ASSERT_TRUE(Dropout(lane, x.tensor(), probability, key, y.tensor()).ok());
        EXPECT_TRUE(y.SameBits(Array(dtype, {elements}, expected)));
        ASSERT_TRUE(Dropout(lane, x.tensor(), probability, key, x.tensor()).ok());
        EXPECT_TRUE(x.SameBits(y));
      }
    }
  }
}

TEST(Dropout, DropsTheShareThatWasAsked) {
  InlineLane lane(1);
  const int64_t elements = 100003;
  const Array x(DType::kFloat32, {elements}, std::vector<double>(elements, 1));
  ASSERT_TRUE(Dropout(lane, x.tensor(), 0.2f, RandomKey{1}, x.tensor()).ok());
  double sum = 0;
  for (double value : x.values()) sum += value;
  EXPECT_NEAR(sum / elements, 1, 0.01);
}

TEST(Elementwise, ThreadsDoNotMatter) {
  const Array a = RandomArray(DType::kBFloat16, {100003}, 1);
  const Array b = RandomArray(DType::kBFloat16, {100003}, 2);
  ExpectThreadIndependent([&](Lane& lane) {
    std::vector<Array> outputs;
    outputs.emplace_back(DType::kBFloat16, Shape{100003});
    outputs.emplace_back(DType::kBFloat16, Shape{100003});
    EXPECT_TRUE(Add(lane, a.tensor(), b.tensor(), outputs[0].tensor()).ok());
    EXPECT_TRUE(Dropout(lane, a.tensor(), 0.5f, RandomKey{1}, outputs[1].tensor()).ok());
    return outputs;
  });
}

}  // namespace
}  // namespace tessera::kernels
