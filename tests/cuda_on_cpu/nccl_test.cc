#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cuda_on_cpu/pretend.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/ranks.h"
#include "tests/cuda_on_cpu/testing/device_array.h"
#include "tests/cuda_on_cpu/testing/test_lane.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr int kRanks = 3;
constexpr int kCount = 10;
constexpr int kSeeds = 10;

// rank(number, communicator, stream), of each rank.
template <typename Rank>
void OnRanks(Rank rank) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    RunRanks(kRanks, [&](int r) {
      ASSERT_EQ(cudaSetDevice(r), cudaSuccess);
      TestLane lane;
      ncclComm_t communicator = nullptr;
      ASSERT_EQ(ncclCommInitRank(&communicator, kRanks, id, r), ncclSuccess);
      rank(r, communicator, lane.stream());
      ASSERT_EQ(cudaStreamSynchronize(lane.stream()), cudaSuccess);
      ASSERT_EQ(ncclCommDestroy(communicator), ncclSuccess);
    });
  }
}

template <typename T>
class NcclSumTest : public testing::Test {};
template <typename T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr ncclDataType_t kType = ncclFloat32;
};
template <>
struct TypeOf<double> {
  static constexpr ncclDataType_t kType = ncclFloat64;
};
template <>
struct TypeOf<int64_t> {
  static constexpr ncclDataType_t kType = ncclInt64;
};
template <>
struct TypeOf<uint64_t> {
  static constexpr ncclDataType_t kType = ncclUint64;
};
using Types = testing::Types<float, double, int64_t, uint64_t>;
TYPED_TEST_SUITE(NcclSumTest, Types);

TYPED_TEST(NcclSumTest, InPlaceToo) {
  OnRanks([](int rank, ncclComm_t communicator, cudaStream_t stream) {
    std::vector<TypeParam> values(kCount);
    for (int i = 0; i < kCount; ++i) values[i] = static_cast<TypeParam>(i + 100 * rank);
    const DeviceArray<TypeParam> x(values);
    const DeviceArray<TypeParam> y(kCount);
    constexpr ncclDataType_t kType = TypeOf<TypeParam>::kType;
    ASSERT_EQ(ncclAllReduce(x.data(), y.data(), kCount, kType, ncclSum, communicator, stream),
              ncclSuccess);
    ASSERT_EQ(ncclAllReduce(x.data(), x.data(), kCount, kType, ncclMax, communicator, stream),
              ncclSuccess);
    const auto sums = y.Values();
    const auto largest = x.Values();
    for (int i = 0; i < kCount; ++i) {
      EXPECT_EQ(sums[i], static_cast<TypeParam>(3 * i + 300));
      EXPECT_EQ(largest[i], static_cast<TypeParam>(i + 200));
    }
  });
}

TEST(NcclTest, GatherInPlaceAndBroadcast) {
  OnRanks([](int rank, ncclComm_t communicator, cudaStream_t stream) {
    std::vector<float> own(kRanks * kCount);
    for (int i = 0; i < kCount; ++i) own[rank * kCount + i] = static_cast<float>(rank * 10 + i);
    const DeviceArray<float> x(own);
    ASSERT_EQ(
        ncclAllGather(x.data() + rank * kCount, x.data(), kCount, ncclFloat, communicator, stream),
        ncclSuccess);
    const DeviceArray<float> y(std::vector<float>(kCount, static_cast<float>(rank)));
    ASSERT_EQ(ncclBroadcast(y.data(), y.data(), kCount, ncclFloat, 2, communicator, stream),
              ncclSuccess);
    const auto gathered = x.Values();
    for (int i = 0; i < kRanks * kCount; ++i) EXPECT_EQ(gathered[i], i / kCount * 10 + i % kCount);
    EXPECT_EQ(y.Values(), std::vector<float>(kCount, 2));
  });
}

TEST(NcclTest, AllToAllInAGroup) {
  OnRanks([](int rank, ncclComm_t communicator, cudaStream_t stream) {
    std::vector<int32_t> own(kRanks);
    for (int peer = 0; peer < kRanks; ++peer) own[peer] = 10 * rank + peer;
    const DeviceArray<int32_t> x(own);
    const DeviceArray<int32_t> y(kRanks);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < kRanks; ++peer) {
      ASSERT_EQ(ncclSend(x.data() + peer, 1, ncclInt32, peer, communicator, stream), ncclSuccess);
      ASSERT_EQ(ncclRecv(y.data() + peer, 1, ncclInt32, peer, communicator, stream), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    const auto received = y.Values();
    for (int peer = 0; peer < kRanks; ++peer) EXPECT_EQ(received[peer], 10 * peer + rank);
  });
}

// One thread, several devices.
TEST(NcclTest, OneThreadJoinsAllInAGroup) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t communicators[kRanks];
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ASSERT_EQ(ncclCommInitRank(&communicators[rank], kRanks, id, rank), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (ncclComm_t communicator : communicators) {
    int count = 0;
    EXPECT_EQ(ncclCommCount(communicator, &count), ncclSuccess);
    EXPECT_EQ(count, kRanks);
    EXPECT_EQ(ncclCommDestroy(communicator), ncclSuccess);
  }
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST(NcclTest, TwoRanksOnOneDeviceAreRefused) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  RunRanks(2, [&](int rank) {
    ncclComm_t communicator = nullptr;
    EXPECT_EQ(ncclCommInitRank(&communicator, 2, id, rank), ncclInvalidUsage);
    EXPECT_EQ(ncclCommAbort(communicator), ncclSuccess);
  });
}

// Rank 0 gives up; the others wait for it in a collective.
void ExpectAbortEnds(bool reaches_peers) {
  Pretended().abort_reaches_peers = reaches_peers;
  for (int seed = 0; seed < kSeeds; ++seed) {
    SetSeed(seed);
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    RunRanks(kRanks, [&](int rank) {
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      TestLane lane;
      ncclComm_t communicator = nullptr;
      ASSERT_EQ(ncclCommInitRank(&communicator, kRanks, id, rank), ncclSuccess);
      const DeviceArray<float> x{std::vector<float>(kCount)};
      if (rank != 0) {
        ASSERT_EQ(ncclAllReduce(x.data(), x.data(), kCount, ncclFloat, ncclSum, communicator,
                                lane.stream()),
                  ncclSuccess);
        if (reaches_peers) {
          ncclResult_t error = ncclSuccess;
          while (error == ncclSuccess) {
            ASSERT_EQ(ncclCommGetAsyncError(communicator, &error), ncclSuccess);
          }
          EXPECT_EQ(error, ncclRemoteError);
        } else {
          EXPECT_EQ(cudaStreamQuery(lane.stream()), cudaErrorNotReady);
        }
      }
      ASSERT_EQ(ncclCommAbort(communicator), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(lane.stream()), cudaSuccess);
    });
  }
  Pretended() = {};
}

TEST(NcclTest, AbortReachesPeers) { ExpectAbortEnds(true); }
TEST(NcclTest, AbortIsEachRanksOwn) { ExpectAbortEnds(false); }

TEST(NcclTest, JoinsWithoutBlocking) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  RunRanks(kRanks, [&](int rank) {
    ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t communicator = nullptr;
    ASSERT_EQ(ncclCommInitRankConfig(&communicator, kRanks, id, rank, &config), ncclInProgress);
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      ASSERT_EQ(ncclCommGetAsyncError(communicator, &state), ncclSuccess);
    }
    EXPECT_EQ(state, ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(communicator), ncclSuccess);
  });
}

}  // namespace
}  // namespace tessera::cuda_on_cpu
