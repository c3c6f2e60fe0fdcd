#include "kernels/embedding.h"

#include <vector>

#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "kernels/testing/cuda_test_util.h"

namespace tessera::kernels {
namespace {

struct Case {
  int64_t vocabulary, context, sequences, length, width;
};
constexpr Case kCases[] = {{11, 9, 2, 7, 48},
                           {1, 1, 1, 1, 1},
                           {300, 64, 5, 51, 33},
                           {3, 255, 3, 255, 5},
                           {50257, 65, 3, kSanitized ? 17 : 64, 8},
                           {50, 17, 1, 17, 768},
                           {50, 17, 1, 3, 1600}};
constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};

Array Tokens(const Case& c) {
  std::vector<double> values(c.sequences * c.length);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>((i * i * 7 + i / 3) % c.vocabulary);
  }
  return Array(DType::kInt32, {c.sequences, c.length}, values);
}

absl::Status Backward(Lane& lane, const std::vector<Tensor>& t) {
  return EmbeddingBackward(lane, t[0], t[1], t[2], t[3], static_cast<std::byte*>(t[4].data));
}

class CudaEmbeddingTest : public CudaTest {
 protected:
  void ExpectFault(int32_t value, int64_t position, int64_t limit) {
    const CudaFault fault = TakeFault();
    EXPECT_EQ(fault.kind, CudaFault::kTokenOutOfRange);
    EXPECT_EQ(fault.value, value);
    EXPECT_EQ(fault.position, position);
    EXPECT_EQ(fault.limit, limit);
  }
};

TEST_F(CudaEmbeddingTest, ForwardHasTheSameBitsAsTheCpu) {
  for (DType dtype : kDTypes) {
    for (const Case& c : kCases) {
      const Array tokens = Tokens(c);
      const Array table = RandomArray(dtype, {c.vocabulary, c.width}, 1);
      const Array positions = RandomArray(dtype, {c.context, c.width}, 2);
      const Array out(dtype, {c.sequences, c.length, c.width});
      ExpectSameBitsAsCpu({&tokens, &table, &positions, &out}, [](Lane& lane, const auto& t) {
        return EmbeddingForward(lane, t[0], t[1], t[2], t[3]);
      });
    }
  }
}

// Contributions are added in the order of the tokens on both.
TEST_F(CudaEmbeddingTest, BackwardHasTheSameBitsAsTheCpu) {
  for (DType dtype : kDTypes) {
    for (DType table_dtype : kDTypes) {
      for (const Case& c : kCases) {
        // A block for every row of a table: slow with a sanitizer.
        const bool as_trained = dtype == DType::kBFloat16 && table_dtype == DType::kFloat32;
        if (kSanitized && c.vocabulary > 1000 && !as_trained) continue;
        const Array tokens = Tokens(c);
        const Array d_out = RandomArray(dtype, {c.sequences, c.length, c.width}, 3);
        const Array table(table_dtype, {c.vocabulary, c.width});
        const Array positions(table_dtype, {c.context, c.width});
        ExpectSameBitsAsCpu({&tokens, &d_out, &table, &positions}, Backward,
                            EmbeddingBackwardWorkspace(c.vocabulary, c.sequences * c.length));
      }
    }
  }
}

TEST_F(CudaEmbeddingTest, ForeignTokensAreFaultsAndCountAsTheFirst) {
  const Array table = RandomArray(DType::kFloat32, {5, 4}, 1);
  const Array out(DType::kFloat32, {1, 3, 4});
  const Array d_out = RandomArray(DType::kFloat32, {1, 3, 4}, 1);
  const Array d_table(DType::kFloat32, {5, 4});
  const int64_t bytes = EmbeddingBackwardWorkspace(5, 3);
  const auto forward = [](Lane& lane, const auto& t) {
    return EmbeddingForward(lane, t[0], t[1], t[1], t[2]);
  };
  const Array valid(DType::kInt32, {1, 3}, {4, 2, 0});
  for (const int token : {-1, 5}) {
    const Array tokens(DType::kInt32, {1, 3}, {4, 2, static_cast<double>(token)});
    const std::vector<Array> results = RunKernel(lane(), {&tokens, &table, &out}, forward);
    ExpectFault(token, 2, 5);
    EXPECT_TRUE(results[2].SameBits(RunKernel(lane(), {&valid, &table, &out}, forward)[2]));
    const std::vector<Array> gradients =
        RunKernel(lane(), {&tokens, &d_out, &d_table, &d_table}, Backward, bytes);
    ExpectFault(token, 2, 5);
    const std::vector<Array> expected =
        RunKernel(lane(), {&valid, &d_out, &d_table, &d_table}, Backward, bytes);
    EXPECT_TRUE(gradients[2].SameBits(expected[2]));
  }
}

TEST_F(CudaEmbeddingTest, TheFirstFaultStays) {
  const Array table = RandomArray(DType::kFloat32, {5, 4}, 1);
  const Array out(DType::kFloat32, {1, 1, 4});
  for (const int token : {7, 8}) {
    const Array tokens(DType::kInt32, {1, 1}, {static_cast<double>(token)});
    RunKernel(lane(), {&tokens, &table, &out}, [](Lane& lane, const auto& t) {
      return EmbeddingForward(lane, t[0], t[1], t[1], t[2]);
    });
  }
  ExpectFault(7, 0, 5);
}

}  // namespace
}  // namespace tessera::kernels
