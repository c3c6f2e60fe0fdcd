#include "kernels/embedding.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/kernel_test_util.h"

namespace tessera::kernels {
namespace {

struct Case {
  int64_t vocabulary, context, sequences, length, width;
};
constexpr Case kCases[] = {{11, 9, 2, 7, 48}, {1, 1, 1, 1, 1}, {300, 64, 5, 51, 33}};
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

Array Tokens(const Case& c) {
  std::vector<double> values(c.sequences * c.length);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>((i * i * 7 + i / 3) % c.vocabulary);
  }
  return Array(DType::kInt32, {c.sequences, c.length}, values);
}

TEST(EmbeddingForward, AddsRows) {
  InlineLane lane(2);
  for (DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      const Array tokens = Tokens(c);
      const Array table = RandomArray(dtype, {c.vocabulary, c.width}, 1);
      const Array positions = RandomArray(dtype, {c.context, c.width}, 2);
      const std::vector<double> table_values = table.values();
      const std::vector<double> position_values = positions.values();
      std::vector<double> expected(tokens.tensor().elements() * c.width);
      for (size_t i = 0; i < expected.size(); ++i) {
        const auto row = static_cast<int64_t>(i) / c.width;
        const auto column = static_cast<int64_t>(i) % c.width;
        const int64_t token = tokens.tensor().as<int32_t>()[row];
        expected[i] = static_cast<float>(table_values[token * c.width + column]) +
                      static_cast<float>(position_values[row % c.length * c.width + column]);
      }
      const Shape shape = {c.sequences, c.length, c.width};
      const Array out(dtype, shape);
      ASSERT_TRUE(
          EmbeddingForward(lane, tokens.tensor(), table.tensor(), positions.tensor(), out.tensor())
              .ok());
      EXPECT_TRUE(out.SameBits(Array(dtype, shape, expected)));
    }
  }
}

struct Gradients {
  Array token_table, position_table;
};

Gradients Backward(Lane& lane, const Case& c, const Array& d_out, DType dtype) {
  const Array tokens = Tokens(c);
  Gradients gradients = {Array(dtype, {c.vocabulary, c.width}), Array(dtype, {c.context, c.width})};
  const Array workspace(DType::kInt32,
                        {EmbeddingBackwardWorkspace(c.vocabulary, c.sequences * c.length) / 4});
  EXPECT_TRUE(EmbeddingBackward(lane, tokens.tensor(), d_out.tensor(),
                                gradients.token_table.tensor(), gradients.position_table.tensor(),
                                workspace.bytes())
                  .ok());
  return gradients;
}

TEST(EmbeddingBackward, AddsInOrderOfPosition) {
  InlineLane lane(2);
  for (DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      const Array tokens = Tokens(c);
      const Array d_out = RandomArray(dtype, {c.sequences, c.length, c.width}, 3);
      const std::vector<double> gradient = d_out.values();
      std::vector<float> token_sum(c.vocabulary * c.width);
      std::vector<float> position_sum(c.context * c.width);
      for (size_t i = 0; i < gradient.size(); ++i) {
        const auto row = static_cast<int64_t>(i) / c.width;
        const auto column = static_cast<int64_t>(i) % c.width;
        const int64_t token = tokens.tensor().as<int32_t>()[row];
        token_sum[token * c.width + column] += static_cast<float>(gradient[i]);
        position_sum[row % c.length * c.width + column] += static_cast<float>(gradient[i]);
      }
      for (DType out : {dtype, DType::kFloat32}) {
        const Gradients gradients = Backward(lane, c, d_out, out);
        EXPECT_TRUE(gradients.token_table.SameBits(
            Array(out, {c.vocabulary, c.width}, {token_sum.begin(), token_sum.end()})));
        EXPECT_TRUE(gradients.position_table.SameBits(
            Array(out, {c.context, c.width}, {position_sum.begin(), position_sum.end()})));
      }
    }
  }
}

TEST(Embedding, RefusesForeignTokens) {
  InlineLane lane(1);
  const Array table = RandomArray(DType::kFloat32, {5, 4}, 1);
  const Array out(DType::kFloat32, {1, 3, 4});
  const Array workspace(DType::kInt32, {EmbeddingBackwardWorkspace(5, 3) / 4});
  for (double token : {-1.0, 5.0}) {
    const Array tokens(DType::kInt32, {1, 3}, {0, 4, token});
    const absl::Status status =
        EmbeddingForward(lane, tokens.tensor(), table.tensor(), table.tensor(), out.tensor());
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_NE(status.ToString().find("position 2 of sequence 0"), std::string::npos) << status;
    EXPECT_EQ(EmbeddingBackward(lane, tokens.tensor(), out.tensor(), table.tensor(), table.tensor(),
                                workspace.bytes())
                  .code(),
              absl::StatusCode::kOutOfRange);
  }
}

TEST(Embedding, ThreadsDoNotMatter) {
  const Case c = kCases[2];
  const Array d_out = RandomArray(DType::kBFloat16, {c.sequences, c.length, c.width}, 3);
  ExpectThreadIndependent([&](Lane& lane) {
    Gradients gradients = Backward(lane, c, d_out, DType::kFloat32);
    std::vector<Array> outputs;
    outputs.push_back(std::move(gradients.token_table));
    outputs.push_back(std::move(gradients.position_table));
    return outputs;
  });
}

}  // namespace
}  // namespace tessera::kernels
