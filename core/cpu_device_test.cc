#include "core/cpu_device.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

void Sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST(CpuDeviceTest, LaneKeepsOrderAndJoinWaits) {
  CpuDevice device({.lanes = 1});
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    device.lane(0).Enqueue([&order, i] {
      Sleep(1);
      order.push_back(i);
      return absl::OkStatus();
    });
  }
  EXPECT_TRUE(device.Join().ok());
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
}

TEST(CpuDeviceTest, LanesRunAtTheSameTime) {
  CpuDevice device({.lanes = 2});
  std::atomic<bool> first = false;
  std::atomic<bool> second = false;
  const auto meet = [](std::atomic<bool>& own, std::atomic<bool>& other) {
    own = true;
    for (int i = 0; i < 5000 && !other; ++i) Sleep(1);
    return other ? absl::OkStatus() : absl::InternalError("alone");
  };
  device.lane(0).Enqueue([&] { return meet(first, second); });
  device.lane(1).Enqueue([&] { return meet(second, first); });
  EXPECT_TRUE(device.Join().ok());
}

TEST(CpuDeviceTest, WaitIsForTheRecordBeforeIt) {
  CpuDevice device({.lanes = 2});
  const auto event = device.CreateEvent();
  int value = 0;  // plain: the sanitizers see a missing order
  int seen = 0;
  std::atomic<bool> blocked = true;
  device.lane(1).Wait(*event);  // never recorded: no wait
  device.lane(0).Enqueue([&] {
    Sleep(20);
    value = 1;
    return absl::OkStatus();
  });
  device.lane(0).Record(*event);
  device.lane(1).Wait(*event);
  device.lane(1).Enqueue([&] {
    seen = value;
    blocked = false;
    return absl::OkStatus();
  });
  // The later use of the event must not hold lane 1 up: lane 0 would never end.
  device.lane(0).Enqueue([&] {
    for (int i = 0; i < 5000 && blocked; ++i) Sleep(1);
    return blocked ? absl::InternalError("waited for a later record") : absl::OkStatus();
  });
  device.lane(0).Record(*event);
  EXPECT_TRUE(device.Join().ok());
  EXPECT_EQ(seen, 1);
}

TEST(CpuDeviceTest, AnEarlierUseInAnotherLaneIsWaitedFor) {
  CpuDevice device({.lanes = 3});
  const auto event = device.CreateEvent();
  int value = 0;
  int seen = 0;
  device.lane(0).Enqueue([&] {
    Sleep(30);
    value = 7;
    return absl::OkStatus();
  });
  device.lane(0).Record(*event);
  device.lane(2).Wait(*event);
  device.lane(1).Record(*event);  // done at once
  device.lane(2).Enqueue([&] {
    seen = value;
    return absl::OkStatus();
  });
  EXPECT_TRUE(device.Join().ok());
  EXPECT_EQ(seen, 7);
}

TEST(CpuDeviceTest, PingPongUnderJitter) {
  CpuDevice device({.lanes = 2, .threads = 2, .jitter_seed = 5});
  const auto there = device.CreateEvent();
  const auto back = device.CreateEvent();
  int64_t value = 0;
  for (int i = 0; i < 200; ++i) {
    device.lane(0).Wait(*back);
    device.lane(0).Enqueue([&] {
      value = value * 3 + 1;
      return absl::OkStatus();
    });
    device.lane(0).Record(*there);
    device.lane(1).Wait(*there);
    device.lane(1).Enqueue([&] {
      value = (value + 5) % 1000003;
      return absl::OkStatus();
    });
    device.lane(1).Record(*back);
  }
  EXPECT_TRUE(device.Join().ok());
  int64_t expected = 0;
  for (int i = 0; i < 200; ++i) expected = (expected * 3 + 6) % 1000003;
  EXPECT_EQ(value, expected);
}

TEST(CpuDeviceTest, FirstFailureStopsTheWork) {
  CpuDevice device({.lanes = 2});
  const auto event = device.CreateEvent();
  std::atomic<int> calls = 0;
  std::atomic<bool> unblocked = false;
  bool ran = false;
  std::string reported;
  device.OnFailure([&](const absl::Status& status) {
    ++calls;
    reported = std::string(status.message());
    unblocked = true;
  });
  // Stands for a collective that only an abort ends.
  device.lane(1).Enqueue([&] {
    while (!unblocked) Sleep(1);
    return absl::CancelledError("second");
  });
  device.lane(0).Enqueue([] { return absl::DataLossError("first"); });
  device.lane(0).Enqueue([&] {
    ran = true;
    return absl::OkStatus();
  });
  device.lane(0).Record(*event);
  device.lane(1).Wait(*event);
  EXPECT_EQ(device.Join(), absl::DataLossError("first"));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(reported, "first");
  EXPECT_FALSE(ran);
  EXPECT_EQ(device.Join(), absl::DataLossError("first"));
}

TEST(CpuDeviceTest, OnlyLaneZeroHasHelpers) {
  CpuDevice device({.lanes = 2, .threads = 3});
  EXPECT_EQ(device.lanes(), 2);
  EXPECT_EQ(device.lane(0).pool().threads(), 3);
  EXPECT_EQ(device.lane(1).pool().threads(), 1);
  std::atomic<int64_t> sum = 0;
  for (int lane = 0; lane < 2; ++lane) {
    device.lane(lane).Enqueue([&device, &sum, lane] {
      device.lane(lane).pool().For(100, [&](int64_t tile) { sum += tile; });
      return absl::OkStatus();
    });
  }
  EXPECT_TRUE(device.Join().ok());
  EXPECT_EQ(sum, 2 * 4950);
}

TEST(CpuDeviceTest, MemoryIsZeroedAlignedAndRefused) {
  CpuDevice device({});
  for (const int64_t bytes : {0, 1, 4096, 1000003}) {
    const auto data = device.Allocate(MemoryKind::kDevice, bytes);
    ASSERT_TRUE(data.ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*data) % 4096, 0u);
    for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ((*data)[i], std::byte{0});
    if (bytes > 0) (*data)[bytes - 1] = std::byte{1};
  }
  const auto refused = device.Allocate(MemoryKind::kDevice, int64_t{1} << 60);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              testing::MatchesRegex("cannot allocate 1152921504606846976 bytes of host memory, of "
                                    "which [0-9]+ are available; .*"));
}

}  // namespace
}  // namespace tessera
