#include "core/data/token_batches.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/data/shuffle.h"
#include "core/data/token_writer.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// A file of the tokens 0, 1, 2, ...
std::shared_ptr<const TokenFile> CountingFile(int64_t tokens) {
  const std::string path = testing::TempDir() + "/counting.bin";
  std::vector<int32_t> values(tokens);
  for (int64_t i = 0; i < tokens; ++i) values[i] = static_cast<int32_t>(i);
  EXPECT_TRUE(WriteTokenFile(path, values).ok());
  auto file = TokenFile::Open(path, 65536);
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

struct Batch {
  Batch(int64_t sequences, int64_t context)
      : tokens(sequences * context, -1),
        targets(sequences * context, -1),
        fields{Tensor{tokens.data(), DType::kInt32, {sequences, context}},
               Tensor{targets.data(), DType::kInt32, {sequences, context}}} {}
  std::vector<int32_t> tokens, targets;
  std::vector<Tensor> fields;
};

TEST(Shuffled, IsABijectionForEveryCount) {
  for (const int64_t count : {1, 2, 3, 4, 5, 7, 16, 17, 63, 64, 65, 1000, 4097}) {
    std::set<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) seen.insert(Shuffled(1, 0, i, count));
    EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(Shuffled, WorksOnCountsThatNoTableCouldHold) {
  for (const int64_t count : {int64_t{1} << 40, (int64_t{1} << 62) - 1}) {
    const int64_t last = Shuffled(1, int64_t{1} << 35, count - 1, count);
    EXPECT_GE(last, 0);
    EXPECT_LT(last, count);
    EXPECT_NE(last, Shuffled(1, 0, count - 1, count)) << "the epoch's upper half counts, too";
  }
}

TEST(Shuffled, MixesWell) {
  // A position's displacement is count / 3 on average in a random order; seeds
  // and epochs agree in about one place.
  constexpr int64_t kCount = 3000;
  int64_t displacement = 0, same_epoch = 0, same_seed = 0, neighbours = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    const int64_t place = Shuffled(1, 0, i, kCount);
    displacement += std::abs(place - i);
    same_epoch += place == Shuffled(1, 1, i, kCount);
    same_seed += place == Shuffled(2, 0, i, kCount);
    neighbours += i > 0 && place == Shuffled(1, 0, i - 1, kCount) + 1;
  }
  EXPECT_NEAR(static_cast<double>(displacement) / kCount, kCount / 3.0, 0.05 * kCount);
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(same_seed, 10);
  EXPECT_LT(neighbours, 10);
}

TEST(Shuffled, NeverChanges) {
  // Old runs must find the same order again.
  std::vector<int64_t> order;
  for (int64_t i = 0; i < 10; ++i) order.push_back(Shuffled(42, 3, i, 10));
  EXPECT_EQ(order, (std::vector<int64_t>{6, 1, 0, 2, 4, 8, 9, 3, 5, 7}));
}

TEST(TokenBatches, CutsTheFileIntoShiftedSequences) {
  // 16 tokens make 3 sequences of 5; a 17th would change nothing, a 15th less two.
  auto batches = TokenBatches::Create(CountingFile(16), 5, std::nullopt);
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ((*batches)->sequences_per_epoch(), 3);
  Batch batch(2, 5);
  ASSERT_TRUE((*batches)->Read(2, 2, batch.fields).ok());
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{10, 11, 12, 13, 14, 0, 1, 2, 3, 4}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{11, 12, 13, 14, 15, 1, 2, 3, 4, 5}));

  EXPECT_EQ((*TokenBatches::Create(CountingFile(17), 5, 1))->sequences_per_epoch(), 3);
  EXPECT_EQ((*TokenBatches::Create(CountingFile(15), 5, 1))->sequences_per_epoch(), 2);
}

TEST(TokenBatches, ContextOfOne) {
  auto batches = TokenBatches::Create(CountingFile(2), 1, 9);
  ASSERT_TRUE(batches.ok()) << batches.status();
  Batch batch(3, 1);
  ASSERT_TRUE((*batches)->Read(5, 3, batch.fields).ok());
  EXPECT_EQ(batch.tokens, (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{1, 1, 1}));
}

TEST(TokenBatches, ReadsEverySequenceOncePerEpochHoweverItIsCut) {
  constexpr int64_t kContext = 3, kSequences = 11;
  auto batches = TokenBatches::Create(CountingFile(kContext * kSequences + 1), kContext, 7);
  ASSERT_TRUE(batches.ok()) << batches.status();
  Batch whole(2 * kSequences, kContext);
  ASSERT_TRUE((*batches)->Read(0, 2 * kSequences, whole.fields).ok());
  std::vector<int32_t> first(whole.tokens.begin(), whole.tokens.begin() + kContext * kSequences);
  std::vector<int32_t> second(whole.tokens.begin() + kContext * kSequences, whole.tokens.end());
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set<int32_t>(first.begin(), first.end()).size(), first.size());

  for (const int64_t piece : {1, 2}) {
    for (int64_t start = 0; start < 2 * kSequences; start += piece) {
      Batch part(piece, kContext);
      ASSERT_TRUE((*batches)->Read(start, piece, part.fields).ok());
      EXPECT_TRUE(std::equal(part.tokens.begin(), part.tokens.end(),
                             whole.tokens.begin() + start * kContext));
      EXPECT_TRUE(std::equal(part.targets.begin(), part.targets.end(),
                             whole.targets.begin() + start * kContext));
    }
  }
}

TEST(TokenBatches, RefusesAFileWithoutOneSequence) {
  const auto file = CountingFile(8);
  EXPECT_TRUE(TokenBatches::Create(file, 7, 1).ok());
  const auto batches = TokenBatches::Create(file, 8, 1);
  EXPECT_EQ(batches.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(batches.status().message(),
            file->path() +
                ": 8 tokens; expected at least 9 for one sequence of 8: use more data, or a "
                "smaller model.context");
  EXPECT_FALSE(TokenBatches::Create(CountingFile(0), 1, 1).ok());
}

}  // namespace
}  // namespace tessera
