#include "tests/cuda_on_cpu/cublaslt/epilogue.h"

#include <cmath>

#include "tests/cuda_on_cpu/cublaslt/product.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

// cuBLASLt's epilogues are combinations of these.
constexpr uint32_t kAddBias = CUBLASLT_EPILOGUE_BIAS;
constexpr uint32_t kGelu = CUBLASLT_EPILOGUE_GELU;
constexpr uint32_t kGeluGradient = CUBLASLT_EPILOGUE_DGELU & ~kAuxiliary;
constexpr uint32_t kBiasGradient = CUBLASLT_EPILOGUE_DGELU_BGRAD & ~CUBLASLT_EPILOGUE_DGELU;
constexpr uint32_t kSumA = CUBLASLT_EPILOGUE_BGRADA;
constexpr uint32_t kSumB = CUBLASLT_EPILOGUE_BGRADB;

bool IsKnown(uint32_t epilogue) {
  switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      return true;
    default:
      return false;
  }
}

size_t BytesOf(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

// The tanh form: Hendrycks and Gimpel, "Gaussian error linear units".
constexpr float kRootTwoOverPi = 0.7978845608028654f;
constexpr float kCubic = 0.044715f;

float Gelu(float x) {
  return 0.5f * x * (1 + std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x)));
}

float GeluGradient(float x) {
  const float t = std::tanh(kRootTwoOverPi * (x + kCubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * kRootTwoOverPi * (1 + 3 * kCubic * x * x);
}

}  // namespace

Epilogue::Epilogue(const MatmulDescriptor& descriptor, const MatrixLayout& d)
    : descriptor_(descriptor),
      d_(d),
      epilogue_(descriptor.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 0 : descriptor.epilogue),
      bias_type_(descriptor.bias_type < 0 ? d.type
                                          : static_cast<cudaDataType_t>(descriptor.bias_type)),
      auxiliary_type_(descriptor.auxiliary_type < 0
                          ? d.type
                          : static_cast<cudaDataType_t>(descriptor.auxiliary_type)) {}

cublasStatus_t Epilogue::Check(int device) const {
  if (!IsKnown(descriptor_.epilogue)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (epilogue_ != 0 && d_.order != CUBLASLT_ORDER_COL) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (Has(kAddBias) || Has(kBiasGradient) || Has(kSumA) || Has(kSumB)) {
    if (descriptor_.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    const uint64_t size = Has(kSumB) ? d_.columns : d_.rows;
    CheckDeviceCanUse(descriptor_.bias, size * BytesOf(bias_type_), device, "cublasLtMatmul, bias");
  }
  if (Has(kAuxiliary)) {
    if (descriptor_.auxiliary == nullptr ||
        descriptor_.auxiliary_leading < static_cast<int64_t>(d_.rows)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    const int64_t end = AuxiliaryIndex(d_.batches - 1, static_cast<int64_t>(d_.columns) - 1) +
                        static_cast<int64_t>(d_.rows);
    CheckDeviceCanUse(descriptor_.auxiliary, end * BytesOf(auxiliary_type_), device,
                      "cublasLtMatmul, auxiliary");
  }
  return CUBLAS_STATUS_SUCCESS;
}

int64_t Epilogue::AuxiliaryIndex(int64_t batch, int64_t column) const {
  return batch * descriptor_.auxiliary_stride + column * descriptor_.auxiliary_leading;
}

void Epilogue::Apply(std::vector<float>& values, int64_t batch) const {
  const auto rows = static_cast<int64_t>(d_.rows);
  const auto columns = static_cast<int64_t>(d_.columns);
  char* const auxiliary = static_cast<char*>(descriptor_.auxiliary);
  if (Has(kAddBias)) TsanRead(descriptor_.bias, rows * BytesOf(bias_type_));
  std::vector<float> sums(Has(kBiasGradient) ? rows : 0);
  for (int64_t column = 0; column < columns; ++column) {
    const int64_t first = AuxiliaryIndex(batch, column);
    if (Has(kAuxiliary)) {
      char* const begin = auxiliary + first * BytesOf(auxiliary_type_);
      const size_t bytes = rows * BytesOf(auxiliary_type_);
      Has(kGelu) ? TsanWrite(begin, bytes) : TsanRead(begin, bytes);
    }
    for (int64_t row = 0; row < rows; ++row) {
      float& value = values[column * rows + row];
      if (Has(kAddBias)) value += LoadElement(descriptor_.bias, row, bias_type_);
      if (Has(kGelu)) {
        if (Has(kAuxiliary)) StoreElement(auxiliary, first + row, auxiliary_type_, value);
        value = Gelu(value);
      }
      if (Has(kGeluGradient)) {
        value *= GeluGradient(LoadElement(auxiliary, first + row, auxiliary_type_));
      }
      if (Has(kBiasGradient)) sums[row] += value;
    }
  }
  if (!Has(kBiasGradient)) return;
  TsanWrite(descriptor_.bias, rows * BytesOf(bias_type_));
  for (int64_t row = 0; row < rows; ++row) {
    StoreElement(descriptor_.bias, row, bias_type_, sums[row]);
  }
}

void Epilogue::SumOperands(const std::vector<float>& a, const std::vector<float>& b,
                           uint64_t k) const {
  if (!Has(kSumA) && !Has(kSumB)) return;
  const uint64_t size = Has(kSumA) ? d_.rows : d_.columns;
  TsanWrite(descriptor_.bias, size * BytesOf(bias_type_));
  for (uint64_t i = 0; i < size; ++i) {
    float sum = 0;
    for (uint64_t l = 0; l < k; ++l) sum += Has(kSumA) ? a[l * d_.rows + i] : b[i * k + l];
    StoreElement(descriptor_.bias, static_cast<int64_t>(i), bias_type_, sum);
  }
}

}  // namespace tessera::cuda_on_cpu
