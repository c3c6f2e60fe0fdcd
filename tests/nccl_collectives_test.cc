#include "core/nccl_collectives.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/cuda_device.h"
#include "core/rank_groups.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/cuda_world.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kLane = 1;

std::vector<int> Worlds() {
  std::vector<int> worlds;
  for (const int world : {1, 2, 4}) {
    if (world <= LargestCudaWorld()) worlds.push_back(world);
  }
  return worlds;
}

unsigned char Value(int rank, int64_t i, int round) {
  return static_cast<unsigned char>(rank * 71 + i * 13 + round * 5 + 1);
}

// One rank's device, its collectives and some of its memory.
class Rank {
 public:
  explicit Rank(Communicator& communicator) : rank_(communicator.rank()) {
    auto made = MakeCudaRank(communicator);
    EXPECT_TRUE(made.ok()) << made.status();
    made_ = *std::move(made);
    send_ = *device().Allocate(MemoryKind::kDevice, kBytes);
    out_ = *device().Allocate(MemoryKind::kDevice, kBytes);
  }

  Device& device() { return *made_.device; }
  Collectives& collectives() { return *made_.collectives; }
  Lane& lane() { return device().lane(kLane); }
  std::byte* send() const { return send_; }
  std::byte* out() const { return out_; }

  // Fills `send` with this rank's values.
  void Fill(int64_t bytes, int round) {
    std::vector<unsigned char> values(bytes);
    for (int64_t i = 0; i < bytes; ++i) values[i] = Value(rank_, i, round);
    ASSERT_TRUE(device().CopyFromHost(values.data(), send_, bytes).ok());
  }

  std::vector<unsigned char> Run(int64_t bytes, const std::function<absl::Status()>& collective) {
    lane().Enqueue(collective);
    EXPECT_TRUE(device().Join().ok());
    std::vector<unsigned char> values(bytes);
    EXPECT_TRUE(device().CopyToHost(out_, values.data(), bytes).ok());
    return values;
  }

  static constexpr int64_t kBytes = 1 << 14;

 private:
  const int rank_;
  RankDevice made_;
  std::byte* send_ = nullptr;
  std::byte* out_ = nullptr;
};

void CheckCollectives(Communicator& communicator) {
  Rank rank(communicator);
  const int own = communicator.rank();
  const int size = communicator.size();
  int64_t sent = 0;
  int round = 0;
  for (const int64_t bytes : {0, 1, 17, 1000}) {
    rank.Fill(size * bytes, ++round);
    const auto gathered = rank.Run(size * bytes, [&] {
      return rank.collectives().AllGather(rank.lane(), rank.send(), rank.out(), bytes);
    });
    for (int64_t i = 0; i < size * bytes; ++i) {
      ASSERT_EQ(gathered[i], Value(static_cast<int>(i / bytes), i % bytes, round));
    }
    const auto exchanged = rank.Run((size - 1) * bytes, [&] {
      return rank.collectives().AllToAll(rank.lane(), rank.send(), bytes, rank.out(), bytes);
    });
    for (int64_t i = 0; i < (size - 1) * bytes; ++i) {
      const int slot = static_cast<int>(i / bytes);
      const int from = slot < own ? slot : slot + 1;
      ASSERT_EQ(exchanged[i], Value(from, own * bytes + i % bytes, round));
    }
    sent += 2 * (size - 1) * bytes;
  }
  EXPECT_EQ(rank.collectives().bytes_sent(), sent);

  const std::vector<int64_t> words = {INT64_MAX - own, own, -5};
  ASSERT_TRUE(rank.device().CopyFromHost(words.data(), rank.send(), 24).ok());
  const auto sum = rank.Run(24, [&] {
    return rank.collectives().AllReduceSum(rank.lane(),
                                           reinterpret_cast<const int64_t*>(rank.send()),
                                           reinterpret_cast<int64_t*>(rank.out()), 3);
  });
  uint64_t expected[3] = {};
  for (int r = 0; r < size; ++r) {
    expected[0] += static_cast<uint64_t>(INT64_MAX - r);
    expected[1] += static_cast<uint64_t>(r);
    expected[2] += static_cast<uint64_t>(int64_t{-5});
  }
  EXPECT_EQ(std::memcmp(sum.data(), expected, sizeof(expected)), 0);
}

TEST(NcclCollectives, MoveTheRightBytes) {
  for (const int world : Worlds()) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      SetCudaSeed(seed);
      InCudaWorld(world, CheckCollectives);
    }
  }
}

// Collectives of the world and of a group in one lane, each from what the last left.
void CheckGroups(Communicator& communicator, const RankGroups& groups) {
  Rank rank(communicator);
  auto made =
      MakeNcclGroupCollectives(static_cast<CudaDevice&>(rank.device()), communicator, groups);
  ASSERT_TRUE(made.ok()) << made.status();
  Collectives& of_group = **made;
  const int own = communicator.rank();
  const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& ranks) {
    return std::count(ranks.begin(), ranks.end(), own) > 0;
  });
  const auto members = static_cast<int64_t>(group->size());
  const auto place = std::find(group->begin(), group->end(), own) - group->begin();

  constexpr int64_t kCount = 100;
  std::vector<int64_t> words(kCount, own + 1);
  ASSERT_TRUE(rank.device().CopyFromHost(words.data(), rank.send(), 8 * kCount).ok());
  auto* const sums = reinterpret_cast<int64_t*>(rank.send());
  for (int round = 0; round < 3; ++round) {
    rank.lane().Enqueue([&] { return of_group.AllReduceSum(rank.lane(), sums, sums, kCount); });
    rank.lane().Enqueue(
        [&] { return rank.collectives().AllReduceSum(rank.lane(), sums, sums, kCount); });
  }
  // The group's sums, each as often as it has members: their sum in the first round.
  int64_t first = 0;
  for (const auto& ranks : groups) {
    int64_t sum = 0;
    for (const int r : ranks) sum += r + 1;
    first += sum * static_cast<int64_t>(ranks.size());
  }
  int64_t squares = 0;  // what a group multiplies by, summed over the ranks
  for (const auto& ranks : groups) squares += static_cast<int64_t>(ranks.size() * ranks.size());
  const auto gathered = rank.Run(
      members * 8, [&] { return of_group.AllGather(rank.lane(), rank.send(), rank.out(), 8); });
  for (int64_t member = 0; member < members; ++member) {
    int64_t value = 0;
    std::memcpy(&value, gathered.data() + member * 8, 8);
    EXPECT_EQ(value, first * squares * squares);
  }

  rank.Fill(members * 10, 1);
  const auto exchanged = rank.Run((members - 1) * 10, [&] {
    return of_group.AllToAll(rank.lane(), rank.send(), 10, rank.out(), 10);
  });
  for (int64_t i = 0; i < (members - 1) * 10; ++i) {
    const int64_t slot = i / 10;
    const int from = (*group)[slot < place ? slot : slot + 1];
    ASSERT_EQ(exchanged[i], Value(from, place * 10 + i % 10, 1));
  }
  EXPECT_EQ(of_group.bytes_sent(), (members - 1) * (3 * 8 * kCount + 8 + 10));
}

TEST(NcclCollectives, GroupsBesideTheWorld) {
  if (LargestCudaWorld() < 4) GTEST_SKIP() << "needs four GPUs";
  const RankGroups cases[] = {
      {{0, 1}, {2, 3}}, {{0, 2, 3}, {1}}, {{0, 3}, {1, 2}}, {{0}, {1}, {2}, {3}}, {{0, 1, 2, 3}}};
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    for (const RankGroups& groups : cases) {
      SetCudaSeed(seed);
      InCudaWorld(4, [&](Communicator& communicator) { CheckGroups(communicator, groups); });
    }
  }
}

TEST(NcclCollectives, GroupsOfPretendedNodes) {
  if (LargestCudaWorld() < 4) GTEST_SKIP() << "needs four GPUs";
  InCudaWorld(4, [&](Communicator& communicator) {
    const auto groups = GroupByNode(communicator.rank() < 2 ? "a" : "b", communicator);
    ASSERT_TRUE(groups.ok()) << groups.status();
    EXPECT_EQ(*groups, (RankGroups{{0, 1}, {2, 3}}));
    CheckGroups(communicator, *groups);
  });
}

// A gather in place, as the plan has it for parameters.
TEST(NcclCollectives, GatherInPlace) {
  for (const int world : Worlds()) {
    InCudaWorld(world, [&](Communicator& communicator) {
      Rank rank(communicator);
      const int own = communicator.rank();
      const unsigned char value = static_cast<unsigned char>(own + 1);
      ASSERT_TRUE(rank.device().CopyFromHost(&value, rank.out() + own, 1).ok());
      const auto gathered = rank.Run(world, [&] {
        return rank.collectives().AllGather(rank.lane(), rank.out() + own, rank.out(), 1);
      });
      for (int r = 0; r < world; ++r) EXPECT_EQ(gathered[r], r + 1);
    });
  }
}

TEST(NcclCollectives, TwoRanksOnOneGpu) {
  if (LargestCudaWorld() < 1) GTEST_SKIP() << "no GPU";
  InCudaWorld(3, [](Communicator& communicator) {
    auto device = CudaDevice::Create({.index = communicator.rank() == 2 ? 0 : communicator.rank()});
    if (!device.ok()) return communicator.Abort(device.status());
    const absl::Status status = MakeNcclCollectives(**device, communicator).status();
    if (LargestCudaWorld() < 3) return;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("ranks 0 and 2 have the same GPU ("));
    EXPECT_THAT(std::string(status.message()), HasSubstr("start at most one rank per GPU"));
  });
}

// Every rank but 1, which fails, waits in a collective.
void LoseRankOne(Communicator& communicator) {
  Rank rank(communicator);
  rank.device().OnFailure([&rank](const absl::Status& /*status*/) { rank.collectives().Abort(); });
  ASSERT_TRUE(communicator.Barrier().ok());  // another rank may still be joining
  const auto start = std::chrono::steady_clock::now();
  if (communicator.rank() == 1) {
    communicator.Abort(absl::DataLossError("the disk is gone"));
  } else {
    rank.lane().Enqueue(
        [&] { return rank.collectives().AllGather(rank.lane(), rank.send(), rank.out(), 100); });
    EXPECT_EQ(rank.device().Join(), absl::CancelledError("rank 1: the disk is gone"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// As above, but the others wait for each other in a group that rank 1 is not of, and
// for all in the world.
void LoseRankOneOfAnotherGroup(Communicator& communicator) {
  Rank rank(communicator);
  auto& device = static_cast<CudaDevice&>(rank.device());
  auto made = MakeNcclGroupCollectives(device, communicator, {{0, 1}, {2, 3}});
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(communicator.Barrier().ok());  // the other group may still be joining
  if (communicator.rank() == 1) {
    communicator.Abort(absl::DataLossError("the disk is gone"));
    return;
  }
  rank.lane().Enqueue(
      [&] { return (*made)->AllGather(rank.lane(), rank.send(), rank.out(), 100); });
  rank.lane().Enqueue(
      [&] { return rank.collectives().AllGather(rank.lane(), rank.send(), rank.out(), 100); });
  EXPECT_EQ(device.Join(), absl::CancelledError("rank 1: the disk is gone"));
}

TEST(NcclCollectives, ALostPeerEndsTheWaitInEveryGroup) {
  if (LargestCudaWorld() < 4) GTEST_SKIP() << "needs four GPUs";
  for (const bool reaches : {true, false}) {
    SetNcclAbortReachesPeers(reaches);
    InCudaWorld(4, LoseRankOneOfAnotherGroup);
  }
  SetNcclAbortReachesPeers(true);
}

// What the contract forbids: rank 3 has another order than rank 2, in their group.
void CallInAnotherOrder(Communicator& communicator) {
  Rank rank(communicator);
  auto& device = static_cast<CudaDevice&>(rank.device());
  auto made = MakeNcclGroupCollectives(device, communicator, {{0, 1}, {2, 3}});
  const auto gather = [&] { return (*made)->AllGather(rank.lane(), rank.send(), rank.out(), 8); };
  const auto add = [&] {
    auto* const words = reinterpret_cast<int64_t*>(rank.send());
    return (*made)->AllReduceSum(rank.lane(), words, words, 1);
  };
  rank.lane().Enqueue(communicator.rank() == 3 ? std::function<absl::Status()>(add) : gather);
  rank.lane().Enqueue(communicator.rank() == 3 ? std::function<absl::Status()>(gather) : add);
  (void)device.Join();
}

TEST(NcclCollectivesDeathTest, AnotherOrderInAGroupIsReported) {
  if (!CudaIsSimulated()) GTEST_SKIP() << "would hang";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(InCudaWorld(4, CallInAnotherOrder), ::testing::ExitedWithCode(42),
              "ranks call different collectives");
}

TEST(NcclCollectives, ALostPeerEndsTheWait) {
  for (const int world : Worlds()) {
    if (world == 1) continue;
    for (const bool reaches : {true, false}) {
      SetNcclAbortReachesPeers(reaches);
      InCudaWorld(world, LoseRankOne);
    }
  }
  SetNcclAbortReachesPeers(true);
}

}  // namespace
}  // namespace tessera::testing
