#include <cstring>

#include "tests/cuda_on_cpu/cublaslt/epilogue.h"

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

namespace {

// What the algorithms need, fastest first.
constexpr size_t kWorkspaces[] = {size_t{1} << 20, size_t{64} << 10, 0};

// The auxiliary matrix of an epilogue wants columns of a multiple of 8 elements.
bool HasUsableStride(const MatmulDescriptor& operation) {
  return (operation.epilogue & kAuxiliary) == 0 || operation.auxiliary_leading % 8 == 0;
}

cublasStatus_t Get(uint32_t result, void* value, size_t bytes, size_t* written) {
  if (bytes != sizeof(result)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &result, sizeof(result));
  if (written != nullptr) *written = sizeof(result);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t /*a*/,
    cublasLtMatrixLayout_t /*b*/, cublasLtMatrixLayout_t /*c*/, cublasLtMatrixLayout_t /*d*/,
    cublasLtMatmulPreference_t preference, int requested, cublasLtMatmulHeuristicResult_t* results,
    int* returned) {
  const uint64_t limit = Of(preference).workspace_bytes;
  *returned = 0;
  if (!HasUsableStride(Of(operation))) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const size_t workspace : kWorkspaces) {
    if (workspace > limit || *returned == requested) continue;
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    std::memset(&result, 0, sizeof(result));
    AlgorithmWorkspace(result.algo) = workspace;
    result.workspaceSize = workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

// None splits the summed dimension.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  cublasLtMatmulAlgo_t copy = *algorithm;
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return Get(static_cast<uint32_t>(AlgorithmWorkspace(copy) >> 10), value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return Get(1, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return Get(0, value, bytes, written);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
