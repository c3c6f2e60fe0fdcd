#ifndef TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_DESCRIPTORS_H_
#define TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_DESCRIPTORS_H_

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

// What cuBLASLt's handles stand for.
namespace tessera::cuda_on_cpu {

struct MatmulDescriptor {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int32_t bias_type = -1;  // as D has it
  void* auxiliary = nullptr;
  int64_t auxiliary_leading = 0;
  int64_t auxiliary_stride = 0;
  int32_t auxiliary_type = -1;  // as D has it
};

struct MatrixLayout {
  cudaDataType_t type;
  uint64_t rows;
  uint64_t columns;
  int64_t leading;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batches = 1;
  int64_t stride = 0;

  size_t ElementBytes() const { return type == CUDA_R_16BF ? 2 : 4; }
  // Of a batch's runs of adjacent elements, and how many they are.
  uint64_t Run() const { return order == CUBLASLT_ORDER_COL ? rows : columns; }
  uint64_t Runs() const { return order == CUBLASLT_ORDER_COL ? columns : rows; }
  // From the first element of the first batch to the last one's.
  size_t Bytes() const;
  bool IsValid() const;
};

struct MatmulPreference {
  uint64_t workspace_bytes = 0;
};

// An algorithm is the workspace that it needs.
size_t& AlgorithmWorkspace(cublasLtMatmulAlgo_t& algorithm);

inline MatmulDescriptor& Of(cublasLtMatmulDesc_t handle) {
  return *reinterpret_cast<MatmulDescriptor*>(handle);
}
inline MatrixLayout& Of(cublasLtMatrixLayout_t handle) {
  return *reinterpret_cast<MatrixLayout*>(handle);
}
inline MatmulPreference& Of(cublasLtMatmulPreference_t handle) {
  return *reinterpret_cast<MatmulPreference*>(handle);
}

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_DESCRIPTORS_H_
