#ifndef TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_EPILOGUE_H_
#define TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_EPILOGUE_H_

#include <cstdint>
#include <vector>

#include "tests/cuda_on_cpu/cublaslt/descriptors.h"

namespace tessera::cuda_on_cpu {

// Of epilogues that have an auxiliary matrix.
inline constexpr uint32_t kAuxiliary = 128;

// What is done with a product before it is stored, of a descriptor.
class Epilogue {
 public:
  Epilogue(const MatmulDescriptor& descriptor, const MatrixLayout& d);

  // NotSupported for one that the double does not know; InvalidValue without the
  // pointers that it needs. Reports pointers that the device cannot use.
  cublasStatus_t Check(int device) const;

  // Changes `values` [rows, columns], column by column, of one batch.
  void Apply(std::vector<float>& values, int64_t batch) const;
  // The bias gradients that are sums of an operand over k: op(a) [m, k], op(b) [k, n].
  void SumOperands(const std::vector<float>& a, const std::vector<float>& b, uint64_t k) const;

 private:
  bool Has(uint32_t bits) const { return (epilogue_ & bits) == bits; }
  int64_t AuxiliaryIndex(int64_t batch, int64_t column) const;

  const MatmulDescriptor& descriptor_;
  const MatrixLayout& d_;
  uint32_t epilogue_;
  cudaDataType_t bias_type_;
  cudaDataType_t auxiliary_type_;
};

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_CUBLASLT_EPILOGUE_H_
