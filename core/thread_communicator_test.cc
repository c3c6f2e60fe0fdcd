#include "core/thread_communicator.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/single_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

void RunRanks(const std::vector<std::unique_ptr<Communicator>>& world,
              const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(world.size());
  for (const auto& communicator : world) {
    threads.emplace_back([&body, &communicator] { body(*communicator); });
  }
  for (std::thread& thread : threads) thread.join();
}

// What rank `rank` contributes as byte `i` in round `round`.
std::byte Value(int rank, int64_t i, int round) {
  return static_cast<std::byte>((rank * 31 + i * 7 + round * 13) % 251);
}

uint32_t Hash(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

void CheckAllGather(Communicator& communicator, int64_t bytes, int round, bool in_place) {
  const int rank = communicator.rank();
  std::vector<std::byte> out(communicator.size() * bytes);
  std::vector<std::byte> separate(bytes);
  std::byte* own = in_place ? out.data() + rank * bytes : separate.data();
  for (int64_t i = 0; i < bytes; ++i) own[i] = Value(rank, i, round);
  ASSERT_TRUE(communicator.AllGather(own, out.data(), bytes).ok());
  for (int64_t i = 0; i < bytes; ++i) own[i] = std::byte{255};  // nobody reads it any more
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (in_place && peer == rank) continue;
    for (int64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(out[peer * bytes + i], Value(peer, i, round));
    }
  }
}

void CheckAllToAll(Communicator& communicator, int64_t bytes, int round) {
  const int size = communicator.size();
  const int rank = communicator.rank();
  const int64_t stride = bytes + 3;
  std::vector<std::byte> send(size * stride);
  for (int to = 0; to < size; ++to) {
    for (int64_t i = 0; i < bytes; ++i) send[to * stride + i] = Value(rank * 9 + to, i, round);
  }
  std::vector<std::byte> out((size - 1) * bytes);
  ASSERT_TRUE(communicator.AllToAll(send.data(), stride, out.data(), bytes).ok());
  int64_t at = 0;
  for (int from = 0; from < size; ++from) {
    if (from == rank) continue;
    for (int64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(out[at++], Value(from * 9 + rank, i, round));
    }
  }
}

void CheckBroadcast(Communicator& communicator, int64_t bytes, int round, int root) {
  std::vector<std::byte> data(bytes);
  for (int64_t i = 0; i < bytes; ++i) data[i] = Value(communicator.rank(), i, round);
  ASSERT_TRUE(communicator.Broadcast(data.data(), bytes, root).ok());
  for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], Value(root, i, round));
}

void CheckAllReduceSum(Communicator& communicator, int64_t count, int round) {
  std::vector<int64_t> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = INT64_MAX - i * 1000 - communicator.rank() - round;
  }
  ASSERT_TRUE(communicator.AllReduceSum(absl::MakeSpan(values)).ok());
  for (int64_t i = 0; i < count; ++i) {
    uint64_t expected = 0;
    for (int rank = 0; rank < communicator.size(); ++rank) {
      expected += static_cast<uint64_t>(INT64_MAX - i * 1000 - rank - round);
    }
    ASSERT_EQ(values[i], static_cast<int64_t>(expected));
  }
}

void RandomSequence(Communicator& communicator, uint32_t seed) {
  int64_t sent = 0;
  const int64_t peers = communicator.size() - 1;
  for (int round = 0; round < 40; ++round) {
    const uint32_t random = Hash(seed * 1000 + round);
    const int64_t bytes = random % 7 == 0 ? 0 : (random >> 8) % 3000;
    const int root = static_cast<int>((random >> 4) % communicator.size());
    switch (random % 5) {
      case 0:
        CheckAllGather(communicator, bytes, round, (random & 0x100) != 0);
        sent += peers * bytes;
        break;
      case 1:
        CheckAllToAll(communicator, bytes, round);
        sent += peers * bytes;
        break;
      case 2:
        CheckBroadcast(communicator, bytes, round, root);
        if (communicator.rank() == root) sent += peers * bytes;
        break;
      case 3:
        CheckAllReduceSum(communicator, bytes, round);
        sent += peers * 8 * bytes;
        break;
      default:
        ASSERT_TRUE(communicator.Barrier().ok());
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(communicator.bytes_sent(), sent);
}

TEST(ThreadCommunicatorTest, RandomSequencesOfCollectives) {
  for (const int size : {1, 2, 3, 5, 8}) {
    for (uint32_t seed = 0; seed < 6; ++seed) {
      const auto world = MakeThreadWorld(size);
      ASSERT_EQ(static_cast<int>(world.size()), size);
      RunRanks(world, [&](Communicator& communicator) { RandomSequence(communicator, seed); });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ThreadCommunicatorTest, BarrierWaitsForTheLast) {
  const auto world = MakeThreadWorld(3);
  int value = 0;  // plain: the sanitizers see a missing order
  RunRanks(world, [&](Communicator& communicator) {
    if (communicator.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      value = 1;
    }
    EXPECT_TRUE(communicator.Barrier().ok());
    EXPECT_EQ(value, 1);
  });
}

TEST(ThreadCommunicatorTest, AbortWakesBlockedRanks) {
  for (const int size : {2, 3, 8}) {
    const auto world = MakeThreadWorld(size);
    RunRanks(world, [&](Communicator& communicator) {
      EXPECT_TRUE(communicator.Barrier().ok());
      if (communicator.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        communicator.Abort(absl::DataLossError("no more data"));
        communicator.Abort(absl::DataLossError("again"));
      }
      const absl::Status expected = absl::CancelledError("rank 1: no more data");
      EXPECT_EQ(communicator.Barrier(), expected);
      communicator.Abort(absl::UnknownError("too late"));
      int64_t one = 1;
      EXPECT_EQ(communicator.AllReduceSum(absl::MakeSpan(&one, 1)), expected);
    });
  }
}

TEST(ThreadCommunicatorTest, AbortInTheMiddleOfTrafficIsSafe) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto world = MakeThreadWorld(4);
    RunRanks(world, [&](Communicator& communicator) {
      std::thread saboteur;
      if (communicator.rank() == 2) {
        saboteur = std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(300));
          communicator.Abort(absl::UnknownError("enough"));
        });
      }
      absl::Status status;
      for (int round = 0; status.ok(); ++round) {
        // Given up at once afterwards: no peer may still be reading it.
        std::vector<std::byte> own(5000, Value(communicator.rank(), 0, round));
        std::vector<std::byte> out(4 * 5000);
        status = communicator.AllGather(own.data(), out.data(), 5000);
        if (status.ok()) {
          EXPECT_EQ(out[3 * 5000 + 4999], Value(3, 0, round));
        }
      }
      EXPECT_EQ(status, absl::CancelledError("rank 2: enough"));
      if (saboteur.joinable()) saboteur.join();
    });
  }
}

TEST(ThreadCommunicatorTest, DifferentCallsAreInternalEverywhere) {
  for (const bool other_kind : {false, true}) {
    const auto world = MakeThreadWorld(3);
    RunRanks(world, [&](Communicator& communicator) {
      std::vector<std::byte> own(16);
      std::vector<std::byte> out(3 * 16);
      absl::Status status;
      if (communicator.rank() != 2) {
        status = communicator.AllGather(own.data(), out.data(), 16);
      } else if (other_kind) {
        status = communicator.AllToAll(out.data(), 16, own.data(), 8);
      } else {
        status = communicator.AllGather(own.data(), out.data(), 12);
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("rank 0 called AllGather with 16 bytes"));
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(other_kind ? "rank 2 called AllToAll with 8 bytes"
                                       : "rank 2 called AllGather with 12 bytes"));
      EXPECT_EQ(communicator.Barrier(), status);
    });
  }
}

TEST(SingleCommunicatorTest, CollectivesAndAbort) {
  SingleCommunicator communicator;
  RandomSequence(communicator, 3);
  communicator.Abort(absl::UnknownError("enough"));
  communicator.Abort(absl::UnknownError("again"));
  EXPECT_EQ(communicator.Barrier(), absl::CancelledError("rank 0: enough"));
}

}  // namespace
}  // namespace tessera
