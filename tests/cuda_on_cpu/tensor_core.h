#ifndef TESSERA_TESTS_CUDA_ON_CPU_TENSOR_CORE_H_
#define TESSERA_TESTS_CUDA_ON_CPU_TENSOR_CORE_H_

#include <cstdint>

namespace tessera::cuda_on_cpu {

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 and ldmatrix.sync.aligned.m8n8.x4
// of 16-bit elements, as the PTX ISA has them, of the current warp, all of it.
void MultiplyAccumulate16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                               const float (&c)[4]);
void LoadMatrices(uint32_t (&registers)[4], const void* row);
void LoadMatricesTransposed(uint32_t (&registers)[4], const void* row);

// A read of a row by this thread, done where the sanitizers see it: in the kernel, which
// is instrumented as the harness is not. Volatile, or it would be left out.
inline void SeeRowRead(const void* row) {
  const auto* words = static_cast<const volatile uint64_t*>(row);
  for (int i = 0; i < 2; ++i) static_cast<void>(words[i]);
}

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_TENSOR_CORE_H_
