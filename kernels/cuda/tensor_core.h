#ifndef TESSERA_KERNELS_CUDA_TENSOR_CORE_H_
#define TESSERA_KERNELS_CUDA_TENSOR_CORE_H_

// A warp's matrix instructions and copies that do not wait, for .cu files; see the PTX
// ISA, "mma.m16n8k16", "ldmatrix" and "cp.async". All lanes of the warp must call them
// together, but for the copies.

#include <cuda_runtime.h>

#include <cstdint>

namespace tessera::kernels::cuda {

// A lane's parts of the matrices in d = a b + c: a is 16 x 16 and b 16 x 8, of bf16, two
// to a register with the first in its lower half; c and d are 16 x 8, of fp32. With
// g = lane / 4 and t = lane % 4, a register or element holds (row, column):
//   a  0: (g, 2t..)  1: (g + 8, 2t..)  2: (g, 2t + 8..)  3: (g + 8, 2t + 8..)
//   b  0: (2t.., g)  1: (2t + 8.., g)
//   c  0: (g, 2t)  1: (g, 2t + 1)  2: (g + 8, 2t)  3: (g + 8, 2t + 1)
struct FragmentA {
  uint32_t registers[4];
};
struct FragmentB {
  uint32_t registers[2];
};
struct Accumulator {
  float values[4];
};

// d = a b + c. d may be c.
__device__ inline void MultiplyAccumulate(Accumulator& d, const FragmentA& a, const FragmentB& b,
                                          const Accumulator& c) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};\n"
      : "=f"(d.values[0]), "=f"(d.values[1]), "=f"(d.values[2]), "=f"(d.values[3])
      : "r"(a.registers[0]), "r"(a.registers[1]), "r"(a.registers[2]), "r"(a.registers[3]),
        "r"(b.registers[0]), "r"(b.registers[1]), "f"(c.values[0]), "f"(c.values[1]),
        "f"(c.values[2]), "f"(c.values[3]));
#else
  cuda_on_cpu::MultiplyAccumulate16x8x16(d.values, a.registers, b.registers, c.values);
#endif
}

// Four 8 x 8 matrices of 16-bit elements from shared memory: `row` of lane 8 m + r is the
// address of row r of matrix m, 16-aligned. registers[m] then holds elements
// (lane / 4, 2 (lane % 4)) and the next in its row of matrix m.
__device__ inline void LoadMatrix4(uint32_t (&registers)[4], const void* row) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
#else
  cuda_on_cpu::SeeRowRead(row);
  cuda_on_cpu::LoadMatrices(registers, row);
#endif
}

// The same of the transposed matrices: elements (2 (lane % 4), lane / 4) and the next in
// its column.
__device__ inline void LoadMatrix4Transposed(uint32_t (&registers)[4], const void* row) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(address)
               : "memory");
#else
  cuda_on_cpu::SeeRowRead(row);
  cuda_on_cpu::LoadMatricesTransposed(registers, row);
#endif
}

// Starts a copy of 16 bytes from global to shared memory, both 16-aligned: of the first
// `source_bytes`, the rest becomes zero.
__device__ inline void CopyAsync16(void* destination, const void* source, int source_bytes = 16) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(destination));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(address), "l"(source),
               "r"(source_bytes)
               : "memory");
#else
  cuda_on_cpu::StartCopy(destination, source, source_bytes);
#endif
}

// Ends a group of this thread's copies.
__device__ inline void CommitCopies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;\n" ::: "memory");
#else
  cuda_on_cpu::CommitCopyGroup();
#endif
}

// Waits until all but the latest kPending groups of this thread's have landed. Other
// threads see them after a barrier that follows.
template <int kPending>
__device__ inline void WaitForCopies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
#else
  cuda_on_cpu::WaitForCopyGroups(kPending);
#endif
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_TENSOR_CORE_H_
