#include "core/mpi_communicator.h"

#include <mpi.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/communicator_checks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// A process joins its world once, so the tests share it.
Communicator* world = nullptr;

TEST(MpiCommunicatorTest, RandomSequencesOfCollectives) {
  EXPECT_TRUE(StartedByMpi());
  for (uint32_t seed = 0; seed < 6 && !HasFatalFailure(); ++seed) {
    CheckRandomCollectives(*world, seed);
  }
}

TEST(MpiCommunicatorTest, MessagesBeyondTheEagerLimit) {
  CheckAllGather(*world, 3000001, 1, true);
  CheckAllToAll(*world, 3000001, 2);
  CheckBroadcast(*world, 3000001, 3, world->size() - 1);
}

TEST(MpiCommunicatorTest, BarrierWaitsForTheLast) {
  if (world->size() == 1) GTEST_SKIP();
  ASSERT_TRUE(world->Barrier().ok());
  const auto start = std::chrono::steady_clock::now();
  if (world->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(world->Barrier().ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(40));
}

// The last two break the world, so each world has one of them, at its end.

TEST(MpiCommunicatorTest, ZDifferentCallsAreInternal) {
  if (world->size() != 2) GTEST_SKIP();
  static std::vector<std::byte> own(16);
  static std::vector<std::byte> out(2 * 16);
  const bool gathers = world->rank() == 0;
  const absl::Status status = gathers ? world->AllGather(own.data(), out.data(), 16)
                                      : world->AllToAll(out.data(), 16, own.data(), 8);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(gathers ? "rank 0 called AllGather with 16 bytes, rank 1 called AllToAll "
                                  "with 8 bytes"
                                : "rank 1 called AllToAll with 8 bytes, rank 0 called AllGather "
                                  "with more bytes"));
  EXPECT_EQ(world->Barrier(), status);
}

TEST(MpiCommunicatorTest, ZAbortWakesBlockedRanks) {
  if (world->size() < 3) GTEST_SKIP();
  std::thread other;
  if (world->rank() == 1) {
    other = std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      world->Abort(absl::DataLossError("no more data"));
      world->Abort(absl::DataLossError("again"));
    });
  }
  const absl::Status expected = absl::CancelledError("rank 1: no more data");
  static std::vector<std::byte> data(1 << 20);  // the broken call may still write to it
  const int64_t bytes = static_cast<int64_t>(data.size()) / world->size();
  // Rank 2 never comes.
  if (world->rank() != 2) {
    EXPECT_EQ(world->AllGather(data.data(), data.data(), bytes), expected);
    EXPECT_EQ(world->Barrier(), expected);
  } else {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(world->Barrier(), expected);
  }
  world->Abort(absl::UnknownError("too late"));
  if (other.joinable()) other.join();
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto world = tessera::JoinMpiWorld();
  if (!world.ok()) return 1;
  tessera::world = world->get();
  const int result = RUN_ALL_TESTS();
  // A broken world ends with the process, which mpirun takes for a failure; here
  // all ranks live, so it can be left.
  if (tessera::world->size() > 1) MPI_Finalize();
  return result;
}
