#include "tests/cuda_on_cpu/tensor_core.h"

#include <bit>
#include <cstring>

#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/warp.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr uint32_t kAllLanes = 0xFFFFFFFF;

struct Operands {
  const uint32_t* a;
  const uint32_t* b;
  const float* c;
};

// A register holds two bf16, the first in its lower half.
float Half(uint32_t pair, int which) {
  return std::bit_cast<float>(which == 0 ? pair << 16 : pair & 0xFFFF0000);
}

void MultiplyLanes(uint32_t mask, void* const* in, void* const* out) {
  if (mask != kAllLanes) Report("mma.sync, and lanes of the warp have ended");
  float a[16][16];
  float b[16][8];
  float d[16][8];
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const auto& operands = *static_cast<const Operands*>(in[lane]);
    const int group = lane / 4;
    const int column = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) {
        a[group + i % 2 * 8][column + i / 2 * 8 + half] = Half(operands.a[i], half);
      }
      for (int i = 0; i < 2; ++i) b[column + i * 8 + half][group] = Half(operands.b[i], half);
      for (int i = 0; i < 2; ++i) d[group + i * 8][column + half] = operands.c[i * 2 + half];
    }
  }
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) d[row][column] += a[row][k] * b[k][column];
    }
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    auto* result = static_cast<float*>(out[lane]);
    for (int i = 0; i < 4; ++i) result[i] = d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

// Lanes 8 m .. 8 m + 7 brought the addresses of matrix m's rows.
template <bool kTransposed>
void LoadLanes(uint32_t mask, void* const* in, void* const* out) {
  if (mask != kAllLanes) Report("ldmatrix.sync, and lanes of the warp have ended");
  for (int m = 0; m < 4; ++m) {
    uint16_t matrix[8][8];
    for (int row = 0; row < 8; ++row) {
      const void* address = in[m * 8 + row];
      if (reinterpret_cast<uintptr_t>(address) % 16 != 0) Report("ldmatrix of a misaligned row");
      __builtin_memcpy(matrix[row], address, sizeof(matrix[row]));
    }
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const int row = lane / 4;
      const int column = lane % 4 * 2;
      const uint32_t first = kTransposed ? matrix[column][row] : matrix[row][column];
      const uint32_t second = kTransposed ? matrix[column + 1][row] : matrix[row][column + 1];
      static_cast<uint32_t*>(out[lane])[m] = first | second << 16;
    }
  }
}

}  // namespace

void MultiplyAccumulate16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                               const float (&c)[4]) {
  const Operands operands{.a = a, .b = b, .c = c};
  MeetInWarp(kAllLanes, &MultiplyLanes, &operands, d);
}

void LoadMatrices(uint32_t (&registers)[4], const void* row) {
  MeetInWarp(kAllLanes, &LoadLanes<false>, row, registers);
}

void LoadMatricesTransposed(uint32_t (&registers)[4], const void* row) {
  MeetInWarp(kAllLanes, &LoadLanes<true>, row, registers);
}

}  // namespace tessera::cuda_on_cpu
