#ifndef TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_PRODUCT_H_
#define TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "tests/cuda_on_cpu/cublaslt/descriptors.h"

// Matrices as they lie in a device's memory, read and written as floats.
namespace tessera::cuda_on_cpu {

float LoadElement(const void* data, int64_t index, cudaDataType_t type);
void StoreElement(void* data, int64_t index, cudaDataType_t type, float value);

// One batch of a matrix, column by column, its columns being `layout`'s or, if
// `transposed`, its rows.
std::vector<float> LoadMatrix(const void* data, const MatrixLayout& layout, int64_t batch,
                              bool transposed);
void StoreMatrix(void* data, const MatrixLayout& layout, int64_t batch,
                 const std::vector<float>& values);

// a [m, k] b [k, n], all column by column, summed in fp32.
std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b, int64_t m,
                           int64_t n, int64_t k);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_PRODUCT_H_
