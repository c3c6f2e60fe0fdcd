#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/sample_kernels.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr int kSeeds = 20;

std::vector<float> Numbers(int64_t count) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i * 7919 % 211) - 100.0f;
  return numbers;
}

TEST(CudaOnCpuTest, IndependentThreads) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    TestLane lane;
    const std::vector<float> x = Numbers(1000);
    const DeviceArray<float> in(x);
    const DeviceArray<float> out(x.size());
    ASSERT_TRUE(Scale(lane, out.data(), in.data(), 3, 1000).ok());
    const std::vector<float> result = out.Values();
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(result[i], 3 * x[i]) << i;
  }
}

TEST(CudaOnCpuTest, AnEmptyGridLaunchesNothing) {
  TestLane lane;
  EXPECT_TRUE(Scale(lane, nullptr, nullptr, 3, 0).ok());
}

TEST(CudaOnCpuTest, SharedMemoryAndBarrier) {
  constexpr int64_t kRows = 37;
  constexpr int64_t kColumns = 70;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    TestLane lane;
    const std::vector<float> x = Numbers(kRows * kColumns);
    const DeviceArray<float> in(x);
    const DeviceArray<float> out(x.size());
    ASSERT_TRUE(TransposeTiles(lane, out.data(), in.data(), kRows, kColumns).ok());
    const std::vector<float> result = out.Values();
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        ASSERT_EQ(result[c * kRows + r], x[r * kColumns + c]) << r << ", " << c;
      }
    }
  }
}

TEST(CudaOnCpuTest, WarpsAndDynamicSharedMemory) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kColumns = 333;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    TestLane lane;
    const std::vector<float> x = Numbers(kRows * kColumns);
    const DeviceArray<float> in(x);
    const DeviceArray<float> out(kRows);
    ASSERT_TRUE(SumRows(lane, out.data(), in.data(), kRows, kColumns).ok());
    const std::vector<float> result = out.Values();
    for (int64_t r = 0; r < kRows; ++r) {
      float sum = 0;
      for (int64_t c = 0; c < kColumns; ++c) sum += x[r * kColumns + c];
      EXPECT_EQ(result[r], sum) << r;  // of whole numbers: exact in any order
    }
  }
}

TEST(CudaOnCpuTest, ALaunchThatCudaDoesNotAllowIsAnError) {
  TestLane lane;
  const DeviceArray<float> x(1);
  const absl::Status status = SumRows(lane, x.data(), x.data(), int64_t{1} << 31, 1);
  EXPECT_EQ(status.message(),
            "kernel SumRowsKernel cannot be launched as 2147483648 x 1 x 1 blocks of "
            "128 x 1 x 1 threads with 16 bytes of shared memory");
}

}  // namespace
}  // namespace tessera::cuda_on_cpu
