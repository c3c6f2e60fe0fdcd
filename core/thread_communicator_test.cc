#include "core/thread_communicator.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/communicator_checks.h"
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

TEST(ThreadCommunicatorTest, RandomSequencesOfCollectives) {
  for (const int size : {1, 2, 3, 5, 8}) {
    for (uint32_t seed = 0; seed < 6; ++seed) {
      const auto world = MakeThreadWorld(size);
      ASSERT_EQ(static_cast<int>(world.size()), size);
      RunRanks(world,
               [&](Communicator& communicator) { CheckRandomCollectives(communicator, seed); });
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
        std::vector<std::byte> own(5000, CheckedValue(communicator.rank(), 0, round));
        std::vector<std::byte> out(4 * 5000);
        status = communicator.AllGather(own.data(), out.data(), 5000);
        if (status.ok()) {
          EXPECT_EQ(out[3 * 5000 + 4999], CheckedValue(3, 0, round));
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
  CheckRandomCollectives(communicator, 3);
  communicator.Abort(absl::UnknownError("enough"));
  communicator.Abort(absl::UnknownError("again"));
  EXPECT_EQ(communicator.Barrier(), absl::CancelledError("rank 0: enough"));
}

}  // namespace
}  // namespace tessera
