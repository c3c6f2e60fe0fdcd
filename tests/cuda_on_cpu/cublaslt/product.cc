#include "tests/cuda_on_cpu/cublaslt/product.h"

#include <oneapi/dnnl/dnnl.h>

#include "core/dtype.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

// Of OpenMP, in which oneDNN runs threads: the sanitizers do not see what orders them.
extern "C" void omp_set_num_threads(int threads);

namespace tessera::cuda_on_cpu {
namespace {

int64_t Index(const MatrixLayout& layout, int64_t batch, int64_t run, int64_t element) {
  return batch * layout.stride + run * layout.leading + element;
}

const char* Address(const void* data, const MatrixLayout& layout, int64_t batch, int64_t run) {
  return static_cast<const char*>(data) + Index(layout, batch, run, 0) * layout.ElementBytes();
}

}  // namespace

// With our own bf16: CUDA's copies its bits by memcpy, on a stack that ThreadSanitizer
// takes for the stream's, though it is the host's.
float LoadElement(const void* data, int64_t index, cudaDataType_t type) {
  if (type == CUDA_R_16BF) return static_cast<float>(static_cast<const BFloat16*>(data)[index]);
  return static_cast<const float*>(data)[index];
}

void StoreElement(void* data, int64_t index, cudaDataType_t type, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<BFloat16*>(data)[index] = BFloat16(value);
  } else {
    static_cast<float*>(data)[index] = value;
  }
}

std::vector<float> LoadMatrix(const void* data, const MatrixLayout& layout, int64_t batch,
                              bool transposed) {
  const auto runs = static_cast<int64_t>(layout.Runs());
  const auto run_length = static_cast<int64_t>(layout.Run());
  const bool along_runs = (layout.order == CUBLASLT_ORDER_COL) != transposed;
  std::vector<float> values(runs * run_length);
  for (int64_t run = 0; run < runs; ++run) {
    TsanRead(Address(data, layout, batch, run), run_length * layout.ElementBytes());
    for (int64_t i = 0; i < run_length; ++i) {
      values[along_runs ? run * run_length + i : i * runs + run] =
          LoadElement(data, Index(layout, batch, run, i), layout.type);
    }
  }
  return values;
}

void StoreMatrix(void* data, const MatrixLayout& layout, int64_t batch,
                 const std::vector<float>& values) {
  const auto runs = static_cast<int64_t>(layout.Runs());
  const auto run_length = static_cast<int64_t>(layout.Run());
  const bool along_runs = layout.order == CUBLASLT_ORDER_COL;
  for (int64_t run = 0; run < runs; ++run) {
    TsanWrite(const_cast<char*>(Address(data, layout, batch, run)),
              run_length * layout.ElementBytes());
    for (int64_t i = 0; i < run_length; ++i) {
      StoreElement(data, Index(layout, batch, run, i), layout.type,
                   values[along_runs ? run * run_length + i : i * runs + run]);
    }
  }
}

std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b, int64_t m,
                           int64_t n, int64_t k) {
  std::vector<float> product(m * n);
  if (product.empty() || k == 0) return product;
  omp_set_num_threads(1);
  // oneDNN's matrices lie row by row: these are then the transposed ones.
  const dnnl_status_t status =
      dnnl_sgemm('N', 'N', n, m, k, 1.0f, b.data(), k, a.data(), m, 0.0f, product.data(), m);
  if (status != dnnl_success) Report("dnnl_sgemm failed: %d", static_cast<int>(status));
  return product;
}

}  // namespace tessera::cuda_on_cpu
