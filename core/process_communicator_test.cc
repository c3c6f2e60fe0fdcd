#include "core/process_communicator.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/communicator_checks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

void Sleep(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Runs `body` as every rank of a world, each a process. Returns how they ended:
// 0, 1 when one of its expectations failed, or minus a signal.
std::vector<int> RunRanks(int size, const std::function<void(Communicator&)>& body) {
  const absl::StatusOr<int> world = MakeProcessWorld(size);
  EXPECT_TRUE(world.ok()) << world.status();
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    processes.push_back(fork());
    if (processes.back() != 0) continue;
    {
      auto communicator = JoinProcessWorld({*world, rank, size});
      EXPECT_TRUE(communicator.ok()) << communicator.status();
      if (communicator.ok()) body(**communicator);
    }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  close(*world);
  std::vector<int> ends;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    ends.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  return ends;
}

std::vector<int> AllFine(int size) { return std::vector<int>(size, 0); }

TEST(ProcessCommunicatorTest, RandomSequencesOfCollectives) {
  for (const int size : {1, 2, 3, 4}) {
    EXPECT_EQ(RunRanks(size,
                       [](Communicator& communicator) {
                         for (uint32_t seed = 0; seed < 6; ++seed) {
                           CheckRandomCollectives(communicator, seed);
                         }
                       }),
              AllFine(size));
  }
}

TEST(ProcessCommunicatorTest, MessagesBeyondASlot) {
  for (const int size : {1, 2, 3, 4}) {
    EXPECT_EQ(RunRanks(size,
                       [](Communicator& communicator) {
                         for (const int64_t bytes : {1 << 20, 3000001}) {
                           CheckAllGather(communicator, bytes, 1, true);
                           CheckAllGather(communicator, bytes, 1, false);
                           CheckAllToAll(communicator, bytes, 2);
                           CheckBroadcast(communicator, bytes, 3, communicator.size() - 1);
                           CheckAllReduceSum(communicator, bytes / 8, 4);
                         }
                       }),
              AllFine(size));
  }
}

TEST(ProcessCommunicatorTest, BarrierWaitsForTheLast) {
  EXPECT_EQ(RunRanks(3,
                     [](Communicator& communicator) {
                       const auto start = Clock::now();
                       if (communicator.rank() == 1) Sleep(50);
                       EXPECT_TRUE(communicator.Barrier().ok());
                       EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(30));
                     }),
            AllFine(3));
}

TEST(ProcessCommunicatorTest, NoRankEndsBeforeTheLast) {
  EXPECT_EQ(RunRanks(3,
                     [](Communicator& communicator) {
                       EXPECT_TRUE(communicator.Barrier().ok());
                       // While it looks, the others have nothing left to do.
                       if (communicator.rank() != 1) return;
                       Sleep(700);
                       EXPECT_TRUE(communicator.Check().ok());
                     }),
            AllFine(3));
}

TEST(ProcessCommunicatorTest, DifferentCallsAreInternal) {
  EXPECT_EQ(RunRanks(3,
                     [](Communicator& communicator) {
                       std::vector<std::byte> own(16);
                       std::vector<std::byte> out(3 * 16);
                       const absl::Status status =
                           communicator.rank() != 2
                               ? communicator.AllGather(own.data(), out.data(), 16)
                               : communicator.AllToAll(out.data(), 16, own.data(), 8);
                       EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
                       EXPECT_THAT(
                           std::string(status.message()),
                           HasSubstr("rank 0 called AllGather with 16 bytes and root 0, rank 2 "
                                     "called AllToAll with 8 bytes and root 0"));
                       EXPECT_EQ(communicator.Barrier(), status);
                       EXPECT_EQ(communicator.Check(), status);
                     }),
            AllFine(3));
}

TEST(ProcessCommunicatorTest, AbortWakesBlockedRanks) {
  for (const int size : {2, 3, 4}) {
    const auto start = Clock::now();
    EXPECT_EQ(RunRanks(size,
                       [](Communicator& communicator) {
                         const absl::Status expected = absl::CancelledError("rank 1: no more data");
                         std::thread other;
                         if (communicator.rank() == 1) {
                           EXPECT_TRUE(communicator.Check().ok());
                           other = std::thread([&communicator] {
                             Sleep(50);
                             communicator.Abort(absl::DataLossError("no more data"));
                             communicator.Abort(absl::DataLossError("again"));
                           });
                         }
                         // The last rank comes too late.
                         if (communicator.rank() == communicator.size() - 1) Sleep(150);
                         EXPECT_EQ(communicator.Barrier(), expected);
                         communicator.Abort(absl::UnknownError("too late"));
                         EXPECT_EQ(communicator.Check(), expected);
                         std::byte byte{};
                         EXPECT_EQ(communicator.Broadcast(&byte, 1, 0), expected);
                         if (other.joinable()) other.join();
                       }),
              AllFine(size));
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
  }
}

TEST(ProcessCommunicatorTest, ALongMessageOfAnAbortIsCut) {
  EXPECT_EQ(RunRanks(2,
                     [](Communicator& communicator) {
                       if (communicator.rank() == 0) {
                         communicator.Abort(absl::DataLossError(std::string(5000, 'a')));
                       }
                       EXPECT_EQ(communicator.Barrier(),
                                 absl::CancelledError("rank 0: " + std::string(1024, 'a')));
                     }),
            AllFine(2));
}

TEST(ProcessCommunicatorTest, AKilledRankIsNoticed) {
  for (const int size : {2, 4}) {
    std::vector<int> expected = AllFine(size);
    expected[1] = -SIGKILL;
    EXPECT_EQ(RunRanks(size,
                       [](Communicator& communicator) {
                         EXPECT_TRUE(communicator.Barrier().ok());
                         if (communicator.rank() == 1) {
                           Sleep(100);
                           kill(getpid(), SIGKILL);
                         }
                         const auto start = Clock::now();
                         const absl::Status expected = absl::UnavailableError("rank 1 has ended");
                         // Rank 0 waits in a call, the others elsewhere.
                         if (communicator.rank() == 0) {
                           EXPECT_EQ(communicator.Barrier(), expected);
                         }
                         while (communicator.Check().ok()) Sleep(10);
                         EXPECT_EQ(communicator.Check(), expected);
                         EXPECT_EQ(communicator.Barrier(), expected);
                         EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
                       }),
              expected);
  }
}

TEST(ProcessCommunicatorTest, ARankKilledAtAnyMomentIsNoticed) {
  for (int microseconds = 0; microseconds < 3000; microseconds += 300) {
    std::vector<int> expected = {0, -SIGKILL, 0};
    EXPECT_EQ(RunRanks(3,
                       [&](Communicator& communicator) {
                         std::thread killer;
                         if (communicator.rank() == 1) {
                           killer = std::thread([&] {
                             std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
                             kill(getpid(), SIGKILL);
                           });
                         }
                         int64_t value = 1;
                         absl::Status status;
                         while (status.ok()) status = communicator.AllReduceSum({&value, 1});
                         EXPECT_EQ(status, absl::UnavailableError("rank 1 has ended"));
                         if (killer.joinable()) killer.join();
                       }),
              expected);
  }
}

TEST(ProcessCommunicatorTest, TheEnvironmentNamesARank) {
  EXPECT_FALSE(ProcessRankOfEnvironment().has_value());
  std::vector<std::string> variables = ProcessRankVariables({7, 3, 12});
  for (std::string& variable : variables) putenv(variable.data());
  const std::optional<ProcessRank> rank = ProcessRankOfEnvironment();
  for (const std::string& variable : variables) {
    unsetenv(variable.substr(0, variable.find('=')).c_str());
  }
  ASSERT_TRUE(rank.has_value());
  EXPECT_EQ(rank->world, 7);
  EXPECT_EQ(rank->rank, 3);
  EXPECT_EQ(rank->size, 12);
}

TEST(ProcessCommunicatorTest, ADescriptorOfSomethingElse) {
  EXPECT_EQ(JoinProcessWorld({9999, 0, 2}).status().code(), absl::StatusCode::kUnavailable);
  const absl::StatusOr<int> world = MakeProcessWorld(2);
  ASSERT_TRUE(world.ok());
  for (const ProcessRank& rank : {ProcessRank{*world, 0, 3}, {*world, 2, 2}, {*world, -1, 2}}) {
    EXPECT_THAT(std::string(JoinProcessWorld(rank).status().message()),
                HasSubstr("is not that of"));
  }
  close(*world);
}

}  // namespace
}  // namespace tessera
