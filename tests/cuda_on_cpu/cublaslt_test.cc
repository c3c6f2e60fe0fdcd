#include <cublasLt.h>
#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

// The double against sums in double precision.
namespace tessera::cuda_on_cpu {
namespace {

constexpr int kM = 7;
constexpr int kN = 5;
constexpr int kK = 9;
constexpr int kBatches = 2;
constexpr int kPad = 3;  // between columns

struct Case {
  bool transpose_a = false;
  bool transpose_b = false;
  bool half = false;  // bf16 operands and results
  bool rows_first = false;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  float beta = 0;
};

double Gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double GeluSlope(double x) { return (Gelu(x + 1e-5) - Gelu(x - 1e-5)) / 2e-5; }

// A matrix of each batch, small numbers that bf16 holds exactly.
class Matrix {
 public:
  Matrix(int rows, int columns, const Case& kind, int salt)
      : rows_(rows), columns_(columns), half_(kind.half), rows_first_(kind.rows_first) {
    std::vector<float> values(size_t{1} * kBatches * stride());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 37 + salt * 11) % 17) / 8 - 1;
    }
    if (half_) {
      std::vector<__nv_bfloat16> rounded;
      for (const float value : values) rounded.push_back(__float2bfloat16(value));
      bfloat16_ = std::make_unique<DeviceArray<__nv_bfloat16>>(rounded);
    } else {
      float_ = std::make_unique<DeviceArray<float>>(values);
    }
    cublasLtMatrixLayoutCreate(&layout_, half_ ? CUDA_R_16BF : CUDA_R_32F, rows, columns,
                               leading());
    const int32_t batches = kBatches;
    const int64_t offset = stride();
    const int32_t order = rows_first_ ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                     sizeof(batches));
    cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &offset,
                                     sizeof(offset));
    cublasLtMatrixLayoutSetAttribute(layout_, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order));
  }
  ~Matrix() { cublasLtMatrixLayoutDestroy(layout_); }

  cublasLtMatrixLayout_t layout() const { return layout_; }
  void* data() const { return half_ ? static_cast<void*>(bfloat16_->data()) : float_->data(); }
  int64_t leading() const { return (rows_first_ ? columns_ : rows_) + kPad; }
  int64_t stride() const { return leading() * (rows_first_ ? rows_ : columns_) + 1; }
  int64_t Index(int batch, int row, int column) const {
    return batch * stride() + (rows_first_ ? row * leading() + column : column * leading() + row);
  }
  std::vector<double> Values() const {
    std::vector<double> values;
    if (half_) {
      for (const auto value : bfloat16_->Values()) values.push_back(__bfloat162float(value));
    } else {
      for (const float value : float_->Values()) values.push_back(value);
    }
    return values;
  }

 private:
  int rows_;
  int columns_;
  bool half_;
  bool rows_first_;
  std::unique_ptr<DeviceArray<float>> float_;
  std::unique_ptr<DeviceArray<__nv_bfloat16>> bfloat16_;
  cublasLtMatrixLayout_t layout_ = nullptr;
};

class CublasLtTest : public testing::TestWithParam<Case> {};

TEST_P(CublasLtTest, IsTheFormula) {
  const Case& kind = GetParam();
  const uint32_t epilogue = kind.epilogue;
  const bool adds_bias = (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  const bool gelu = (epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
  const bool slope = (epilogue & CUBLASLT_EPILOGUE_DGELU & ~128u) != 0;
  const bool auxiliary = (epilogue & 128u) != 0;
  const Matrix a(kind.transpose_a ? kK : kM, kind.transpose_a ? kM : kK, kind, 1);
  const Matrix b(kind.transpose_b ? kN : kK, kind.transpose_b ? kK : kN, kind, 2);
  const Matrix c(kM, kN, kind, 3);
  const Matrix d(kM, kN, kind, 4);
  const Matrix extra(kM, kN, kind, 5);
  const Matrix bias(std::max(kM, kN), 1, kind, 6);
  const std::vector<double> old_extra = extra.Values();
  const std::vector<double> old_bias = bias.Values();

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const auto set = [operation](cublasLtMatmulDescAttributes_t attribute, auto value) {
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, kind.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, kind.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, kind.epilogue);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, extra.data());
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, extra.leading());
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, extra.stride());

  TestLane lane;
  const float alpha = 0.5f;
  ASSERT_EQ(cublasLtMatmul(handle, operation, &alpha, a.data(), a.layout(), b.data(), b.layout(),
                           &kind.beta, c.data(), c.layout(), d.data(), d.layout(), nullptr, nullptr,
                           0, lane.stream()),
            CUBLAS_STATUS_SUCCESS);

  const auto a_values = a.Values();
  const auto b_values = b.Values();
  const auto c_values = c.Values();
  const auto d_values = d.Values();
  const auto new_extra = extra.Values();
  const auto new_bias = bias.Values();
  const double tolerance = kind.half ? 0.01 : 1e-5;
  std::vector<double> row_sums(kM);
  const auto at_a = [&](int batch, int i, int l) {
    return a_values[kind.transpose_a ? a.Index(batch, l, i) : a.Index(batch, i, l)];
  };
  const auto at_b = [&](int batch, int l, int j) {
    return b_values[kind.transpose_b ? b.Index(batch, j, l) : b.Index(batch, l, j)];
  };
  for (int batch = 0; batch < kBatches; ++batch) {
    std::fill(row_sums.begin(), row_sums.end(), 0);
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        double value = 0;
        for (int l = 0; l < kK; ++l) value += at_a(batch, i, l) * at_b(batch, l, j);
        value = alpha * value + kind.beta * c_values[c.Index(batch, i, j)];
        if (adds_bias) value += old_bias[i];
        const int64_t e = extra.Index(batch, i, j);
        if (gelu && auxiliary) {
          EXPECT_NEAR(new_extra[e], value, tolerance * 4);
        }
        if (gelu) value = Gelu(value);
        if (slope) value *= GeluSlope(old_extra[e]);
        row_sums[i] += value;
        EXPECT_NEAR(d_values[d.Index(batch, i, j)], value, tolerance * 4) << i << ", " << j;
      }
    }
  }
  const int last = kBatches - 1;
  if (kind.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD) {
    for (int i = 0; i < kM; ++i) EXPECT_NEAR(new_bias[i], row_sums[i], tolerance * 10);
  } else if (kind.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
    for (int i = 0; i < kM; ++i) {
      double sum = 0;
      for (int l = 0; l < kK; ++l) sum += at_a(last, i, l);
      EXPECT_NEAR(new_bias[i], sum, tolerance * 10);
    }
  } else if (kind.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    for (int j = 0; j < kN; ++j) {
      double sum = 0;
      for (int l = 0; l < kK; ++l) sum += at_b(last, l, j);
      EXPECT_NEAR(new_bias[j], sum, tolerance * 10);
    }
  } else {
    EXPECT_EQ(new_bias, old_bias);
  }
  cublasLtMatmulDescDestroy(operation);
  cublasLtDestroy(handle);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const bool half : {false, true}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const bool rows_first : {false, true}) {
          cases.push_back({.transpose_a = transpose_a,
                           .transpose_b = transpose_b,
                           .half = half,
                           .rows_first = rows_first,
                           .beta = transpose_a ? 1.5f : 0.0f});
        }
      }
    }
    for (const auto epilogue :
         {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_AUX,
          CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU,
          CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
      cases.push_back({.transpose_a = true, .half = half, .epilogue = epilogue});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CublasLtTest, testing::ValuesIn(Cases()));

TEST(CublasLtAlgorithmsTest, RefuseAnAuxiliaryMatrixOfOddColumns) {
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DGELU;
  ASSERT_EQ(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                           sizeof(epilogue)),
            CUBLAS_STATUS_SUCCESS);
  for (const int64_t columns : {int64_t{8}, int64_t{12}, int64_t{768}}) {
    ASSERT_EQ(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                             &columns, sizeof(columns)),
              CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulHeuristicResult_t result;
    int returned = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(nullptr, operation, nullptr, nullptr, nullptr, nullptr,
                                             preference, 1, &result, &returned),
              columns % 8 == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED);
  }
  cublasLtMatmulDescDestroy(operation);
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST(CublasLtAlgorithmsTest, FitTheWorkspace) {
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  for (const uint64_t limit : {uint64_t{0}, uint64_t{100} << 10, uint64_t{32} << 20}) {
    ASSERT_EQ(cublasLtMatmulPreferenceSetAttribute(
                  preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof(limit)),
              CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulHeuristicResult_t results[4];
    int returned = 0;
    ASSERT_EQ(cublasLtMatmulAlgoGetHeuristic(nullptr, operation, nullptr, nullptr, nullptr, nullptr,
                                             preference, 4, results, &returned),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_GE(returned, 1);
    for (int i = 0; i < returned; ++i) EXPECT_LE(results[i].workspaceSize, limit);
  }
  cublasLtMatmulDescDestroy(operation);
  cublasLtMatmulPreferenceDestroy(preference);
}

TEST(CublasLtAlgorithmsTest, AnAttributeThatIsNotKnownIsRefused) {
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  const int8_t fast = 1;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast,
                                           sizeof(fast)),
            CUBLAS_STATUS_NOT_SUPPORTED);
  cublasLtMatmulDescDestroy(operation);
}

}  // namespace
}  // namespace tessera::cuda_on_cpu
