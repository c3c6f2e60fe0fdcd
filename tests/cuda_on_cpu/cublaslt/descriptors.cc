#include "tests/cuda_on_cpu/cublaslt/descriptors.h"

#include <cstring>

namespace tessera::cuda_on_cpu {
namespace {

// An attribute that is not known is refused: nothing passes in silence.
template <typename T>
cublasStatus_t Set(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof(T) || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, sizeof(T));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

size_t MatrixLayout::Bytes() const {
  if (rows == 0 || columns == 0) return 0;
  return ((Runs() - 1) * leading + Run() + (batches - 1) * stride) * ElementBytes();
}

bool MatrixLayout::IsValid() const {
  return (type == CUDA_R_16BF || type == CUDA_R_32F) && leading >= static_cast<int64_t>(Run()) &&
         batches >= 1;
}

size_t& AlgorithmWorkspace(cublasLtMatmulAlgo_t& algorithm) {
  static_assert(sizeof(algorithm.data[0]) == sizeof(size_t));
  return reinterpret_cast<size_t&>(algorithm.data[0]);
}

}  // namespace tessera::cuda_on_cpu

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *handle = reinterpret_cast<cublasLtMatmulDesc_t>(
      new MatmulDescriptor{.compute = compute, .scale = scale});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  delete &Of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  MatmulDescriptor& descriptor = Of(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return Set(descriptor.transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return Set(descriptor.transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return Set(descriptor.pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return Set(descriptor.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return Set(descriptor.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return Set(descriptor.bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return Set(descriptor.auxiliary, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return Set(descriptor.auxiliary_leading, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return Set(descriptor.auxiliary_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return Set(descriptor.auxiliary_type, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  *handle = reinterpret_cast<cublasLtMatrixLayout_t>(
      new MatrixLayout{.type = type, .rows = rows, .columns = columns, .leading = leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  delete &Of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  MatrixLayout& layout = Of(handle);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return Set(layout.order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return Set(layout.batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return Set(layout.stride, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  *handle = reinterpret_cast<cublasLtMatmulPreference_t>(new MatmulPreference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  delete &Of(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  uint32_t ignored = 0;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return Set(Of(handle).workspace_bytes, value, bytes);
    // The one algorithm there is suits any.
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return Set(ignored, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
