#include "core/cuda_device.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#ifdef TESSERA_CUDA_ON_CPU
#include "tests/cuda_on_cpu/pretend.h"
#include "tests/cuda_on_cpu/random.h"
#endif

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void SetSeed([[maybe_unused]] uint64_t seed) {
#ifdef TESSERA_CUDA_ON_CPU
  cuda_on_cpu::SetSeed(seed);
#endif
}

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CountCudaDevices().ok()) GTEST_SKIP() << CountCudaDevices().status();
  }

  static std::unique_ptr<CudaDevice> Make(int lanes = 3) {
    auto device = CudaDevice::Create({.index = 0, .lanes = lanes, .threads = 1});
    EXPECT_TRUE(device.ok()) << device.status();
    return *std::move(device);
  }
};

absl::Status Fill(Lane& lane, std::byte* data, int value, int64_t bytes) {
  return CudaStatus(
      cudaMemsetAsync(data, value, static_cast<size_t>(bytes), CudaLaneOf(lane).stream()),
      "cudaMemsetAsync");
}

absl::Status Copy(Lane& lane, const std::byte* from, std::byte* to, int64_t bytes) {
  return CudaStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                                    CudaLaneOf(lane).stream()),
                    "cudaMemcpyAsync");
}

TEST_F(CudaDeviceTest, MemoryStartsAsZeroAndCopies) {
  const auto device = Make();
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kHost}) {
    std::byte* const data = *device->Allocate(kind, 1000);
    const int64_t alignment = kind == MemoryKind::kHost ? 4096 : 256;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % alignment, 0u);
    std::vector<unsigned char> host(1000, 7);
    ASSERT_TRUE(device->CopyToHost(data, host.data(), 1000).ok());
    EXPECT_EQ(host, std::vector<unsigned char>(1000, 0));
    host[999] = 5;
    ASSERT_TRUE(device->CopyFromHost(host.data() + 999, data + 1, 1).ok());
    ASSERT_TRUE(device->CopyToHost(data, host.data(), 2).ok());
    EXPECT_EQ(host[1], 5);
  }
  EXPECT_TRUE(device->Allocate(MemoryKind::kDevice, 0).ok());
}

// A pipeline of three lanes over one buffer, which only waits keep right.
TEST_F(CudaDeviceTest, EventsOrderLanes) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SetSeed(seed);
    const auto device = Make();
    constexpr int64_t kBytes = 64;
    std::byte* const buffer = *device->Allocate(MemoryKind::kDevice, kBytes);
    std::byte* const pinned = *device->Allocate(MemoryKind::kHost, kBytes);
    const auto filled = device->CreateEvent();
    const auto copied = device->CreateEvent();
    const auto seen = device->CreateEvent();
    std::vector<int> values;
    for (int round = 1; round <= 4; ++round) {
      device->lane(0).Wait(*copied);  // the first was never recorded: no wait
      device->lane(0).Enqueue([&] { return Fill(device->lane(0), buffer, round, kBytes); });
      device->lane(0).Record(*filled);
      device->lane(1).Wait(*filled);
      device->lane(1).Wait(*seen);
      device->lane(1).Enqueue([&] { return Copy(device->lane(1), buffer, pinned, kBytes); });
      device->lane(1).Record(*copied);
      device->lane(2).Wait(*copied);
      device->lane(2).EnqueueHost([&values, pinned] {
        values.push_back(static_cast<int>(pinned[kBytes - 1]));
        return absl::OkStatus();
      });
      device->lane(2).Record(*seen);
    }
    ASSERT_TRUE(device->Join().ok());
    EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  }
}

TEST_F(CudaDeviceTest, AFailureSkipsWhatFollows) {
  for (const bool on_host : {false, true}) {
    const auto device = Make();
    std::vector<std::string> heard;
    device->OnFailure(
        [&heard](const absl::Status& status) { heard.push_back(std::string(status.message())); });
    int ran = 0;
    const auto fail = [] { return absl::DataLossError("lost"); };
    const auto count = [&ran] {
      ++ran;
      return absl::OkStatus();
    };
    device->lane(0).EnqueueHost(count);
    on_host ? device->lane(0).EnqueueHost(fail) : device->lane(0).Enqueue(fail);
    device->lane(0).EnqueueHost(count);
    EXPECT_EQ(device->Join(), absl::DataLossError("lost"));
    device->lane(1).Enqueue([] { return absl::InternalError("another"); });
    device->lane(1).EnqueueHost(count);
    EXPECT_EQ(device->Join(), absl::DataLossError("lost"));
    EXPECT_LE(ran, 1);
    EXPECT_THAT(heard, ElementsAre("lost"));
  }
}

TEST_F(CudaDeviceTest, StampsFollowTheLane) {
  const auto device = Make();
  std::byte* const buffer = *device->Allocate(MemoryKind::kDevice, 1 << 20);
  double times[3] = {-1, -1, -1};
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (double& time : times) {
      device->lane(0).Enqueue([&] { return Fill(device->lane(0), buffer, 1, 1 << 20); });
      device->lane(0).Stamp(&time);
    }
    ASSERT_TRUE(device->Join().ok());
    EXPECT_GE(times[0], 0);
    EXPECT_LE(times[0], times[1]);
    EXPECT_LE(times[1], times[2]);
  }
}

TEST_F(CudaDeviceTest, SaysWhatAKernelFound) {
  const auto device = Make();
  *CudaLaneOf(device->lane(0)).fault() = {CudaFault::kTokenOutOfRange, 300, 17, 256};
  EXPECT_EQ(device->Join().message(),
            "token 300 in element 17 of a micro-batch is not in the vocabulary of 256: check that "
            "the data was made with this model's tokenizer");
}

TEST_F(CudaDeviceTest, TooLittleMemory) {
  const auto device = Make();
  const absl::Status status = device->Allocate(MemoryKind::kDevice, int64_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::MatchesRegex("cudaMalloc of 1125899906842624 bytes on GPU 0 \\(.*\\), of "
                                      "which [0-9]+ bytes are free: .*"));
  EXPECT_TRUE(device->Allocate(MemoryKind::kDevice, 100).ok());
  EXPECT_TRUE(device->Join().ok());
}

// As where a user may not lock so much.
TEST_F(CudaDeviceTest, HostMemoryThatCannotBePinned) {
  const auto device = Make();
  const absl::Status status = device->Allocate(MemoryKind::kHost, int64_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              ::testing::MatchesRegex("cudaHostAlloc of 1125899906842624 bytes of pinned host "
                                      "memory: .*; raise what this user may lock \\(ulimit "
                                      "-l\\), free memory of the host, or offload less to it"));
  EXPECT_TRUE(device->Allocate(MemoryKind::kHost, 100).ok());
  EXPECT_TRUE(device->Join().ok());
}

TEST_F(CudaDeviceTest, MoreRanksThanGpus) {
  const int count = *CountCudaDevices();
  const absl::Status status = CudaDevice::Create({.index = count}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("start at most one rank per GPU"));
}

#ifdef TESSERA_CUDA_ON_CPU

class StartTest : public ::testing::Test {
 protected:
  ~StartTest() override { cuda_on_cpu::Pretended() = {}; }
};

TEST_F(StartTest, NoDriver) {
  cuda_on_cpu::Pretended().driver = 0;
  EXPECT_EQ(CountCudaDevices().status(),
            absl::UnavailableError("there is no NVIDIA driver on this machine; install one, or use "
                                   "--device cpu"));
}

TEST_F(StartTest, TooOldADriver) {
  cuda_on_cpu::Pretended().driver = 12020;
  EXPECT_EQ(
      CountCudaDevices().status(),
      absl::UnavailableError("the NVIDIA driver is too old: it supports CUDA up to 12.2, this "
                             "program needs 13.0; update the driver, or use --device cpu"));
}

TEST_F(StartTest, NoGpu) {
  cuda_on_cpu::Pretended().devices = 0;
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(CountCudaDevices().status(),
            absl::UnavailableError("there is no GPU on this machine; use --device cpu"));
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(
      CountCudaDevices().status(),
      absl::UnavailableError("no GPU is visible, since CUDA_VISIBLE_DEVICES is \"\"; unset it "
                             "or name a GPU, or use --device cpu"));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(StartTest, TooOldAGpu) {
  cuda_on_cpu::Pretended().architecture = 75;
  const absl::Status status = CudaDevice::Create({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has compute capability 7.5; 8.0 is the oldest that this program is built "
                        "for"));
}

#endif  // TESSERA_CUDA_ON_CPU

}  // namespace
}  // namespace tessera
