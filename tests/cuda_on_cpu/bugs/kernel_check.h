#ifndef TESSERA_TESTS_CUDA_ON_CPU_BUGS_KERNEL_CHECK_H_
#define TESSERA_TESTS_CUDA_ON_CPU_BUGS_KERNEL_CHECK_H_

#include <vector>

#include "kernels/cuda/launch.h"
#include "tests/cuda_on_cpu/bugs/program.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

// For .cu files: a kernel without and with a bug, and what it should compute.
namespace tessera::cuda_on_cpu {

inline constexpr int kThreads = 256;

// Writes the `count` elements of `out` from as many of `in`.
using Kernel = void (*)(float* out, const float* in, int count);

struct Case {
  Kernel right;
  Kernel wrong;
  int blocks = 1;
  int threads = kThreads;
  int count = kThreads;
  int shared_floats = 0;
};

// out[i] = expected(in, i)?
template <typename Expected>
bool Check(const Case& kernels, bool bug, Expected expected) {
  TestLane lane;
  const std::vector<float> x = Numbers(kernels.count);
  const DeviceArray<float> in(x);
  const DeviceArray<float> out(x.size());
  const Kernel kernel = bug ? kernels.wrong : kernels.right;
  TESSERA_CHECK(
      TESSERA_LAUNCH(lane, kernel, kernels.blocks, kernels.threads,
                     kernels.shared_floats * sizeof(float), out.data(), in.data(), kernels.count)
          .ok(),
      "");
  const std::vector<float> result = out.Values();
  for (int i = 0; i < kernels.count; ++i) {
    if (result[i] != expected(x, i)) return false;
  }
  return true;
}

inline float Reversed(const std::vector<float>& x, int i) { return x[x.size() - 1 - i]; }
inline float Same(const std::vector<float>& x, int i) { return x[i]; }

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_BUGS_KERNEL_CHECK_H_
