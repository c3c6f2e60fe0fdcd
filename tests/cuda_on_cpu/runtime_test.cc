#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda_on_cpu/pretend.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/ranks.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/sample_kernels.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr int kSeeds = 20;
constexpr int kCount = 256;

std::vector<float> Ones() { return std::vector<float>(kCount, 1); }

// Restores the machine that is pretended.
class PretendTest : public testing::Test {
 protected:
  void TearDown() override {
    Pretended() = {};
    cudaGetLastError();
  }
};

TEST_F(PretendTest, NoDriver) {
  Pretended().driver = 0;
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  int version = -1;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorInsufficientDriver);
}

TEST_F(PretendTest, NoDevice) {
  Pretended().devices = 0;
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNoDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(PretendTest, LittleMemory) {
  Pretended().memory_bytes = 1 << 20;
  void* half = nullptr;
  void* most = nullptr;
  ASSERT_EQ(cudaMalloc(&half, 512 << 10), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&most, 768 << 10), cudaErrorMemoryAllocation);
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(free_bytes, size_t{512} << 10);
  EXPECT_EQ(total_bytes, size_t{1} << 20);
  EXPECT_EQ(cudaFree(half), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&most, 768 << 10), cudaSuccess);
  EXPECT_EQ(cudaFree(most), cudaSuccess);
}

TEST_F(PretendTest, AnArchitectureThatTheKernelsAreNotFor) {
  TestLane lane;
  const DeviceArray<float> x(Ones());
  Pretended().architecture = 75;
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_EQ(properties.major, 7);
  EXPECT_EQ(properties.minor, 5);
  const absl::Status status = Scale(lane, x.data(), x.data(), 2, kCount);
  EXPECT_NE(status.message().find("ScaleKernel"), std::string::npos) << status;
  EXPECT_NE(status.message().find("cudaErrorNoKernelImageForDevice"), std::string::npos) << status;
}

TEST(RuntimeTest, FreshMemoryHoldsNoNumber) {
  const DeviceArray<float> x(kCount);
  for (const float value : x.Values()) ASSERT_NE(value, value);
}

TEST(RuntimeTest, MemoryThatIsNotItsIsNotFreed) {
  char none = 0;
  EXPECT_EQ(cudaFree(&none), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST(RuntimeTest, KernelsReachPinnedMemory) {
  TestLane lane;
  float* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&pinned), kCount * sizeof(float), 0),
            cudaSuccess);
  const DeviceArray<float> x(Ones());
  ASSERT_TRUE(Scale(lane, pinned, x.data(), 5, kCount).ok());
  ASSERT_EQ(cudaStreamSynchronize(lane.stream()), cudaSuccess);
  EXPECT_EQ(pinned[kCount - 1], 5);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(RuntimeTest, AskingAgainAndAgainGetsThere) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    TestLane lane;
    cudaEvent_t event = nullptr;
    ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
    const DeviceArray<float> x(Ones());
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(Scale(lane, x.data(), x.data(), 2, kCount).ok());
    ASSERT_EQ(cudaEventRecord(event, lane.stream()), cudaSuccess);
    ASSERT_TRUE(Scale(lane, x.data(), x.data(), 2, kCount).ok());
    while (cudaEventQuery(event) == cudaErrorNotReady) {
    }
    while (cudaStreamQuery(lane.stream()) == cudaErrorNotReady) {
    }
    float milliseconds = -1;
    EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event, event), cudaSuccess);
    EXPECT_EQ(milliseconds, 0);
    EXPECT_EQ(x.Values()[0], 64);
    ASSERT_EQ(cudaEventDestroy(event), cudaSuccess);
  }
}

struct Note {
  std::atomic<int>* next;
  int at = -1;
};
void TakeNumber(void* argument) {
  auto& note = *static_cast<Note*>(argument);
  note.at = (*note.next)++;
}

TEST(RuntimeTest, HostFunctionsRunInOrderOnAnotherThread) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    TestLane lane;
    std::atomic<int> next = 0;
    Note first{.next = &next};
    Note second{.next = &next};
    ASSERT_EQ(cudaLaunchHostFunc(lane.stream(), &TakeNumber, &first), cudaSuccess);
    ASSERT_EQ(cudaLaunchHostFunc(lane.stream(), &TakeNumber, &second), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(lane.stream()), cudaSuccess);
    EXPECT_EQ(first.at, 0);
    EXPECT_EQ(second.at, 1);
  }
}

TEST(RuntimeTest, TheDeviceGoesOnWithoutCalls) {
  TestLane lane;
  std::atomic<int> next = 0;
  Note note{.next = &next};
  ASSERT_EQ(cudaLaunchHostFunc(lane.stream(), &TakeNumber, &note), cudaSuccess);
  while (next == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(cudaStreamSynchronize(lane.stream()), cudaSuccess);
}

TEST(RuntimeTest, ThreadsThatAreNoRanks) {
  std::vector<std::thread> threads;
  for (int device = 0; device < 4; ++device) {
    threads.emplace_back([device] {
      ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
      TestLane lane;
      const DeviceArray<float> x(Ones());
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(Scale(lane, x.data(), x.data(), 2, kCount).ok());
        ASSERT_EQ(cudaStreamSynchronize(lane.stream()), cudaSuccess);
      }
      EXPECT_EQ(x.Values()[7], 1024);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The order in which ranks come to a point between their calls.
std::string Trace(uint64_t seed) {
  SetSeed(seed);
  std::string trace;
  RunRanks(3, [&trace](int rank) {
    TESSERA_CHECK(cudaSetDevice(rank) == cudaSuccess, "");
    TestLane lane;
    const DeviceArray<float> x(Ones());
    for (int i = 0; i < 5; ++i) {
      TESSERA_CHECK(Scale(lane, x.data(), x.data(), 2, kCount).ok(), "");
      trace += static_cast<char>('0' + rank);
    }
    TESSERA_CHECK(cudaStreamSynchronize(lane.stream()) == cudaSuccess, "");
    trace += static_cast<char>('a' + rank);
  });
  return trace;
}

TEST(RanksTest, AScheduleRepeatsByItsSeed) {
  int different = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const std::string trace = Trace(seed);
    EXPECT_EQ(trace, Trace(seed));
    if (trace != Trace(seed + 1)) ++different;
  }
  EXPECT_GE(different, 8);
}

// All come before any goes on.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}
  void Come() {
    std::unique_lock lock(mutex_);
    if (++here_ == size_) all_here_.notify_all();
    all_here_.wait(lock, [this] { return here_ >= size_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  const int size_;
  int here_ = 0;
};

TEST(RanksTest, RanksWaitForEachOtherOutsideCuda) {
  for (const bool announced : {true, false}) {
    Meeting meeting(3);
    RunRanks(3, [&](int rank) {
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      TestLane lane;
      if (announced) {
        const BlockingSection section;
        meeting.Come();
      } else {
        meeting.Come();
      }
      ASSERT_EQ(cudaStreamSynchronize(lane.stream()), cudaSuccess);
    });
  }
}

TEST(RanksTest, HostFunctionsOfRanksWaitForEachOther) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    Meeting meeting(3);
    RunRanks(3, [&](int rank) {
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      TestLane lane;
      ASSERT_EQ(cudaLaunchHostFunc(
                    lane.stream(),
                    [](void* argument) {
                      const BlockingSection section;
                      static_cast<Meeting*>(argument)->Come();
                    },
                    &meeting),
                cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(lane.stream()), cudaSuccess);
    });
  }
}

TEST(CopiesTest, AWrongKindIsRefused) {
  TestLane lane;
  const DeviceArray<float> x(Ones());
  float host = 0;
  EXPECT_EQ(cudaMemcpyAsync(&host, x.data(), sizeof(host), cudaMemcpyHostToDevice, lane.stream()),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace tessera::cuda_on_cpu
