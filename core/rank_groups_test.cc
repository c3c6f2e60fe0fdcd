#include "core/rank_groups.h"

#include <thread>

#include "core/thread_communicator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TEST(RankGroupsTest, EqualNamesAreAGroup) {
  EXPECT_EQ(GroupByName({}), RankGroups());
  EXPECT_EQ(GroupByName({"a"}), (RankGroups{{0}}));
  EXPECT_EQ(GroupByName({"a", "a", "b", "b"}), (RankGroups{{0, 1}, {2, 3}}));
  EXPECT_EQ(GroupByName({"b", "a", "b", "b", "a"}), (RankGroups{{0, 2, 3}, {1, 4}}));
  EXPECT_EQ(GroupByName({"c", "b", "a"}), (RankGroups{{0}, {1}, {2}}));
}

TEST(RankGroupsTest, RanksAgreeOnTheirNodes) {
  const auto world = MakeThreadWorld(3);
  std::vector<std::thread> threads;
  for (const auto& communicator : world) {
    threads.emplace_back([&communicator] {
      // Longer than any host's name.
      const std::string node = communicator->rank() == 1 ? std::string(1000, 'x') : NodeName();
      const auto groups = GroupByNode(node, *communicator);
      ASSERT_TRUE(groups.ok());
      EXPECT_EQ(*groups, (RankGroups{{0, 2}, {1}}));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RankGroupsTest, ANodeHasAHostAndABoot) {
  EXPECT_THAT(NodeName(), HasSubstr(" "));
  EXPECT_EQ(NodeName(), NodeName());
}

}  // namespace
}  // namespace tessera
