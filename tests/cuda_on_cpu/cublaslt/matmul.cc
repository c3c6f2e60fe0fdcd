#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/cuda_on_cpu/cublaslt/descriptors.h"
#include "tests/cuda_on_cpu/cublaslt/epilogue.h"
#include "tests/cuda_on_cpu/cublaslt/product.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/stream_handle.h"

namespace tessera::cuda_on_cpu {
namespace {

// A call, with all that the caller may change or destroy once it has returned.
struct Call {
  MatmulDescriptor descriptor;
  float alpha;
  float beta;
  const void* a;
  MatrixLayout a_layout;
  const void* b;
  MatrixLayout b_layout;
  const void* c;
  MatrixLayout c_layout;
  void* d;
  MatrixLayout d_layout;
  void* workspace;
  size_t workspace_bytes;

  bool TransposesA() const { return descriptor.transpose_a != CUBLAS_OP_N; }
  bool TransposesB() const { return descriptor.transpose_b != CUBLAS_OP_N; }
  uint64_t Inner() const { return TransposesA() ? a_layout.rows : a_layout.columns; }
};

bool ShapesAgree(const Call& call) {
  const MatrixLayout& d = call.d_layout;
  for (const MatrixLayout* layout : {&call.a_layout, &call.b_layout, &call.c_layout, &d}) {
    if (!layout->IsValid() || layout->batches != d.batches) return false;
  }
  const uint64_t m = call.TransposesA() ? call.a_layout.columns : call.a_layout.rows;
  const uint64_t n = call.TransposesB() ? call.b_layout.rows : call.b_layout.columns;
  const uint64_t inner_b = call.TransposesB() ? call.b_layout.columns : call.b_layout.rows;
  return inner_b == call.Inner() && d.rows == m && d.columns == n && call.c_layout.rows == m &&
         call.c_layout.columns == n;
}

cublasStatus_t Check(const Call& call, int device) {
  if (call.descriptor.compute != CUBLAS_COMPUTE_32F || call.descriptor.scale != CUDA_R_32F ||
      call.descriptor.pointer_mode != CUBLASLT_POINTER_MODE_HOST) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (call.a_layout.type != call.b_layout.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!ShapesAgree(call)) return CUBLAS_STATUS_INVALID_VALUE;
  const auto check = [device](const void* data, size_t bytes, const char* what) {
    if (bytes > 0) CheckDeviceCanUse(data, bytes, device, what);
  };
  check(call.a, call.a_layout.Bytes(), "cublasLtMatmul, A");
  check(call.b, call.b_layout.Bytes(), "cublasLtMatmul, B");
  check(call.d, call.d_layout.Bytes(), "cublasLtMatmul, D");
  if (call.beta != 0) check(call.c, call.c_layout.Bytes(), "cublasLtMatmul, C");
  check(call.workspace, call.workspace_bytes, "cublasLtMatmul, workspace");
  return Epilogue(call.descriptor, call.d_layout).Check(device);
}

// So that what else lies there shows. Of a large one a part, another one each time: to
// write all of it takes longer than a small product.
void SpoilWorkspace(char* workspace, size_t bytes) {
  constexpr size_t kStretch = 256;
  const size_t stride = bytes <= (64 << 10) ? kStretch : 64 * kStretch;
  for (size_t begin = Random() % (stride / kStretch) * kStretch; begin < bytes; begin += stride) {
    std::memset(workspace + begin, 0xFF, std::min(kStretch, bytes - begin));
  }
}

void Run(const Call& call) {
  const auto m = static_cast<int64_t>(call.d_layout.rows);
  const auto n = static_cast<int64_t>(call.d_layout.columns);
  const auto k = static_cast<int64_t>(call.Inner());
  const Epilogue epilogue(call.descriptor, call.d_layout);
  SpoilWorkspace(static_cast<char*>(call.workspace), call.workspace_bytes);
  for (int64_t batch = 0; batch < call.d_layout.batches; ++batch) {
    const auto a = LoadMatrix(call.a, call.a_layout, batch, call.TransposesA());
    const auto b = LoadMatrix(call.b, call.b_layout, batch, call.TransposesB());
    std::vector<float> values = Product(a, b, m, n, k);
    for (float& value : values) value *= call.alpha;
    if (call.beta != 0) {
      const auto c = LoadMatrix(call.c, call.c_layout, batch, false);
      for (size_t i = 0; i < values.size(); ++i) values[i] += call.beta * c[i];
    }
    epilogue.Apply(values, batch);
    StoreMatrix(call.d, call.d_layout, batch, values);
    epilogue.SumOperands(a, b, call.Inner());
  }
}

}  // namespace
}  // namespace tessera::cuda_on_cpu

using namespace tessera::cuda_on_cpu;  // NOLINT: these are C's

cublasStatus_t cublasLtMatmul(cublasLtHandle_t /*handle*/, cublasLtMatmulDesc_t operation,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t handle) {
  const ApiCall api_call("cublasLtMatmul");
  if (algorithm != nullptr) {
    cublasLtMatmulAlgo_t copy = *algorithm;
    if (AlgorithmWorkspace(copy) > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Call call{.descriptor = Of(operation),
                  .alpha = *static_cast<const float*>(alpha),
                  .beta = *static_cast<const float*>(beta),
                  .a = a,
                  .a_layout = Of(a_layout),
                  .b = b,
                  .b_layout = Of(b_layout),
                  .c = c,
                  .c_layout = Of(c_layout),
                  .d = d,
                  .d_layout = Of(d_layout),
                  .workspace = workspace,
                  .workspace_bytes = workspace_bytes};
  if (const cublasStatus_t status = Check(call, CurrentDevice()); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  Enqueue(StreamOf(handle, "cublasLtMatmul"),
          {.name = "cublasLtMatmul", .run = [call] { Run(call); }});
  return CUBLAS_STATUS_SUCCESS;
}
