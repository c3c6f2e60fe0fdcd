#ifndef TESSERA_TESTS_CUDA_ON_CPU_BUGS_PROGRAM_H_
#define TESSERA_TESTS_CUDA_ON_CPU_BUGS_PROGRAM_H_

#include <cstdint>
#include <vector>

namespace tessera::cuda_on_cpu {

// A small program that is right, and the same with one bug.
struct Program {
  const char* name;  // of the bug
  // Whether the result was right. Ends the process if CUDA returns an error.
  bool (*run)(bool with_bug);
};

std::vector<Program> KernelPrograms();
std::vector<Program> MemoryPrograms();
std::vector<Program> TensorCorePrograms();
std::vector<Program> StreamPrograms();
std::vector<Program> MatmulPrograms();
std::vector<Program> CollectivePrograms();

// Whole numbers, of which float sums are exact in any order.
inline std::vector<float> Numbers(int64_t count) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i * 7919 % 211) - 100.0f;
  return numbers;
}

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_BUGS_PROGRAM_H_
