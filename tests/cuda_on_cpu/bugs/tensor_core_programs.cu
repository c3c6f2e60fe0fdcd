#include <cuda_bf16.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/tensor_core.h"
#include "tests/cuda_on_cpu/bugs/program.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

// One warp multiplies matrices of bf16 that it brings to shared memory.
namespace tessera::cuda_on_cpu {
namespace {

using kernels::cuda::Accumulator;
using kernels::cuda::FragmentA;
using kernels::cuda::FragmentB;
using kernels::cuda::LoadMatrix4;
using kernels::cuda::LoadMatrix4Transposed;
using kernels::cuda::MultiplyAccumulate;

enum class Bug : uint8_t { kNone, kNoBarrier, kSwappedRegisters, kNotTransposed, kHalfAWarp };

// c [16, 8] = a [16, 16] b [16, 16], of which the left half. Row by row.
template <Bug kBug>
__global__ void MultiplyKernel(float* c, const __nv_bfloat16* a, const __nv_bfloat16* b) {
  TESSERA_DYNAMIC_SHARED(__nv_bfloat16, rows_of_a);
  __nv_bfloat16* const rows_of_b = rows_of_a + 256;
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) {
    rows_of_a[i] = a[i];
    rows_of_b[i] = b[i];
  }
  if (kBug != Bug::kNoBarrier) __syncwarp();
  FragmentA left;
  uint32_t right[4];
  const int offset = lane % 16 * 16 + lane / 16 * 8;
  LoadMatrix4(left.registers, rows_of_a + offset);
  if (kBug == Bug::kNotTransposed) {
    LoadMatrix4(right, rows_of_b + offset);
  } else {
    LoadMatrix4Transposed(right, rows_of_b + offset);
  }
  if (kBug == Bug::kSwappedRegisters) {
    const uint32_t first = left.registers[1];
    left.registers[1] = left.registers[2];
    left.registers[2] = first;
  }
  Accumulator sum = {};
  const FragmentB half = {{right[0], right[1]}};
  if (kBug != Bug::kHalfAWarp || lane < 16) MultiplyAccumulate(sum, left, half, sum);
  for (int i = 0; i < 4; ++i) {
    c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum.values[i];
  }
}

float Left(int row, int k) { return static_cast<float>((row * 5 + k * 3) % 13 - 6); }
float Right(int k, int column) { return static_cast<float>((k * 7 + column * 2) % 11 - 5); }

template <Bug kBug>
bool Multiply(bool bug) {
  TestLane lane;
  std::vector<__nv_bfloat16> left(256);
  std::vector<__nv_bfloat16> right(256);
  for (int i = 0; i < 256; ++i) {
    left[i] = __float2bfloat16(Left(i / 16, i % 16));
    right[i] = __float2bfloat16(Right(i / 16, i % 16));
  }
  const DeviceArray<__nv_bfloat16> a(left);
  const DeviceArray<__nv_bfloat16> b(right);
  const DeviceArray<float> c(128);
  const auto kernel = bug ? &MultiplyKernel<kBug> : &MultiplyKernel<Bug::kNone>;
  TESSERA_CHECK(TESSERA_LAUNCH(lane, kernel, 1, 32, 1024, c.data(), a.data(), b.data()).ok(), "");
  const std::vector<float> result = c.Values();
  bool correct = true;
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += Left(row, k) * Right(k, column);
      correct &= result[row * 8 + column] == sum;
    }
  }
  return correct;
}

}  // namespace

std::vector<Program> TensorCorePrograms() {
  return {
      {"ldmatrix without __syncwarp", &Multiply<Bug::kNoBarrier>},
      {"registers of a fragment swapped", &Multiply<Bug::kSwappedRegisters>},
      {"ldmatrix not transposed", &Multiply<Bug::kNotTransposed>},
      {"mma by half a warp", &Multiply<Bug::kHalfAWarp>},
  };
}

}  // namespace tessera::cuda_on_cpu
