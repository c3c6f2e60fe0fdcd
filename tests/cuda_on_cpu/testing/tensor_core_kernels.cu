#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_core.h"
#include "tests/cuda_on_cpu/testing/tensor_core_kernels.h"

namespace tessera::cuda_on_cpu {
namespace {

using kernels::cuda::Accumulator;
using kernels::cuda::FragmentA;
using kernels::cuda::FragmentB;

__global__ void MultiplyFragmentsKernel(float* d, const uint32_t* a, const uint32_t* b,
                                        const float* c, int count) {
  const unsigned lane = threadIdx.x;
  FragmentA left;
  Accumulator addend;
  for (int i = 0; i < 4; ++i) {
    left.registers[i] = a[lane * 4 + i];
    addend.values[i] = c[lane * 4 + i];
  }
  for (int n = 0; n < count; ++n) {
    const FragmentB right = {{b[n * 64 + lane * 2], b[n * 64 + lane * 2 + 1]}};
    Accumulator sum;
    kernels::cuda::MultiplyAccumulate(sum, left, right, addend);
    for (int i = 0; i < 4; ++i) d[n * 128 + lane * 4 + i] = sum.values[i];
  }
}

__global__ void LoadFragmentsKernel(uint32_t* registers, const uint16_t* elements, int count,
                                    const int* offsets, bool transposed) {
  TESSERA_DYNAMIC_SHARED(uint16_t, shared);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += 32) shared[i] = elements[i];
  __syncwarp();
  uint32_t loaded[4];
  const uint16_t* row = shared + offsets[threadIdx.x];
  if (transposed) {
    kernels::cuda::LoadMatrix4Transposed(loaded, row);
  } else {
    kernels::cuda::LoadMatrix4(loaded, row);
  }
  for (int i = 0; i < 4; ++i) registers[threadIdx.x * 4 + i] = loaded[i];
}

}  // namespace

absl::Status MultiplyFragments(Lane& lane, float* d, const uint32_t* a, const uint32_t* b,
                               const float* c, int count) {
  return TESSERA_LAUNCH(lane, MultiplyFragmentsKernel, 1, 32, 0, d, a, b, c, count);
}

absl::Status LoadFragments(Lane& lane, uint32_t* registers, const uint16_t* elements, int count,
                           const int* offsets, bool transposed) {
  return TESSERA_LAUNCH(lane, LoadFragmentsKernel, 1, 32, count * sizeof(uint16_t), registers,
                        elements, count, offsets, transposed);
}

}  // namespace tessera::cuda_on_cpu
