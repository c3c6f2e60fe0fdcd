#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/cuda/launch.h"
#include "tests/cuda_on_cpu/bugs/kernel_check.h"
#include "tests/cuda_on_cpu/bugs/program.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

// Kernels that, if kBug, touch memory that they must not.
namespace tessera::cuda_on_cpu {
namespace {

template <bool kBug>
__global__ void WriteWithin(float* out, const float* in, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) out[i] = in[i];
  if (kBug && i == count) out[i] = 1;
}

bool GlobalWritePastTheEnd(bool bug) {
  return Check({.right = WriteWithin<false>, .wrong = WriteWithin<true>, .blocks = 4, .count = 900},
               bug, Same);
}

template <bool kBug>
__global__ void ReadWithin(float* out, const float* in, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= count) return;
  const float next = kBug || i + 1 < count ? in[i + 1] : 0.0f;
  out[i] = next > 1000.0f ? in[i] + 1 : in[i];
}

bool GlobalReadPastTheEnd(bool bug) {
  return Check({.right = ReadWithin<false>, .wrong = ReadWithin<true>, .blocks = 4, .count = 900},
               bug, Same);
}

template <bool kBug>
__global__ void WriteWithinShared(float* out, const float* in, int /*count*/) {
  TESSERA_SHARED(float, row, [kThreads]);
  const unsigned shift = kBug ? 1 : 0;
  row[threadIdx.x + shift] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = row[threadIdx.x + shift];
}

bool SharedWritePastTheEnd(bool bug) {
  return Check({WriteWithinShared<false>, WriteWithinShared<true>}, bug, Same);
}

template <bool kBug>
__global__ void WriteWithinDynamicShared(float* out, const float* in, int /*count*/) {
  TESSERA_DYNAMIC_SHARED(float, row);
  const unsigned shift = kBug ? 1 : 0;
  row[threadIdx.x + shift] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = row[threadIdx.x + shift];
}

bool DynamicSharedWritePastTheEnd(bool bug) {
  return Check({.right = WriteWithinDynamicShared<false>,
                .wrong = WriteWithinDynamicShared<true>,
                .shared_floats = kThreads},
               bug, Same);
}

template <bool kBug>
__global__ void AddToShared(float* out, const float* in, int /*count*/) {
  TESSERA_SHARED(float, row, [kThreads]);
  if (!kBug) row[threadIdx.x] = 0;
  row[threadIdx.x] += in[threadIdx.x];
  out[threadIdx.x] = row[threadIdx.x];
}

bool UninitialisedSharedMemory(bool bug) {
  return Check({AddToShared<false>, AddToShared<true>}, bug, Same);
}

template <bool kBug>
__global__ void AddToGlobal(float* out, const float* in, int /*count*/) {
  if (!kBug) out[threadIdx.x] = 0;
  out[threadIdx.x] += in[threadIdx.x];
}

bool UninitialisedGlobalMemory(bool bug) {
  return Check({AddToGlobal<false>, AddToGlobal<true>}, bug, Same);
}

template <bool kBug>
__global__ void LoadFour(float* out, const float* in, int count) {
  const int first = static_cast<int>(threadIdx.x) * 4;
  const float* from = in + (kBug && first + 5 <= count ? first + 1 : first);
  const float4 four = *reinterpret_cast<const float4*>(from);
  *reinterpret_cast<float4*>(out + first) =
      kBug ? *reinterpret_cast<const float4*>(in + first) : four;
}

bool MisalignedVector(bool bug) {
  return Check({.right = LoadFour<false>, .wrong = LoadFour<true>, .threads = kThreads / 4}, bug,
               Same);
}

bool PointerToHostMemory(bool bug) {
  TestLane lane;
  const std::vector<float> x = Numbers(kThreads);
  const DeviceArray<float> in(x);
  const DeviceArray<float> out(x.size());
  const float* from = bug ? x.data() : in.data();
  TESSERA_CHECK(
      TESSERA_LAUNCH(lane, (AddToGlobal<false>), 1, kThreads, 0, out.data(), from, kThreads).ok(),
      "");
  return out.Values() == x;
}

bool UseAfterFree(bool bug) {
  TestLane lane;
  const std::vector<float> x = Numbers(kThreads);
  auto in = std::make_unique<DeviceArray<float>>(x);
  const DeviceArray<float> out(x.size());
  const float* data = in->data();
  if (bug) in.reset();
  TESSERA_CHECK(
      TESSERA_LAUNCH(lane, (AddToGlobal<false>), 1, kThreads, 0, out.data(), data, kThreads).ok(),
      "");
  return out.Values() == x;
}

}  // namespace

std::vector<Program> MemoryPrograms() {
  return {
      {"global write past the end", &GlobalWritePastTheEnd},
      {"global read past the end", &GlobalReadPastTheEnd},
      {"shared write past the end", &SharedWritePastTheEnd},
      {"dynamic shared write past the end", &DynamicSharedWritePastTheEnd},
      {"uninitialised shared memory", &UninitialisedSharedMemory},
      {"uninitialised global memory", &UninitialisedGlobalMemory},
      {"misaligned vector load", &MisalignedVector},
      {"kernel gets a pointer to host memory", &PointerToHostMemory},
      {"kernel gets freed memory", &UseAfterFree},
  };
}

}  // namespace tessera::cuda_on_cpu
