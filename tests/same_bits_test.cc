#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/philox.h"
#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "sharding/plan.h"
#include "tests/support/small_gpt2.h"

namespace tessera::testing {
namespace {

// A test with many cases runs every so many of them.
constexpr int kRunEvery = kSanitized ? 5 : 1;

constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16};
constexpr int kSumGroups[] = {1, 2, 4};

// What the outcome must not depend on, and the three settings that it may.
struct Case {
  DType dtype = DType::kFloat32;
  int64_t micro_batches = 8;
  int sum_group = 1;

  int stage = 0;
  int world = 1;
  bool recompute = false;
  int threads = 1;
  int prefetch = 1;
  int64_t bucket_bytes = int64_t{32} << 20;
  uint64_t jitter_seed = 0;

  PlanOptions plan() const {
    PlanOptions plan = SmallGpt2Options().trainer.plan;
    plan.stage = stage;
    plan.world = world;
    plan.accumulation = static_cast<int>(micro_batches / world);
    plan.sum_group = sum_group;
    plan.recompute = recompute;
    plan.prefetch = prefetch;
    plan.bucket_bytes = bucket_bytes;
    return plan;
  }

  std::string ToString() const {
    return absl::StrFormat(
        "%s, %d micro-batches, sum group %d, stage %d, world %d, recompute %d, threads %d, "
        "prefetch %d, bucket %d, jitter %d",
        NameOf(dtype), micro_batches, sum_group, stage, world, recompute, threads, prefetch,
        bucket_bytes, jitter_seed);
  }
};

absl::StatusOr<Outcome> Train(const Case& c, RunOptions options = SmallGpt2Options()) {
  options.trainer.plan = c.plan();
  options.micro_batches = c.micro_batches;
  options.threads = c.threads;
  options.jitter_seed = c.jitter_seed;
  SyntheticTokens source(kSmallVocabulary);
  return TrainInThreads(SmallGpt2(c.dtype), options, source, c.world);
}

// Compares with one rank at stage 0 that has nothing to hide: made once for each
// dtype, global batch and sum group.
void ExpectSameBits(const Case& c) {
  SCOPED_TRACE(c.ToString());
  ASSERT_TRUE(SumOrderIsCanonical(c.plan()));
  static auto& references = *new References<std::tuple<DType, int64_t, int>>;
  const absl::StatusOr<Outcome> reference =
      references.Of({c.dtype, c.micro_batches, c.sum_group}, [&] {
        return Train(
            {.dtype = c.dtype, .micro_batches = c.micro_batches, .sum_group = c.sum_group});
      });
  ASSERT_TRUE(reference.ok()) << reference.status();
  const absl::StatusOr<Outcome> outcome = Train(c);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(Difference(*reference, *outcome), "");
}

constexpr int kStages[] = {0, 1, 2, 3};
constexpr int kWorlds[] = {1, 2, 4, 8};
constexpr bool kRecompute[] = {false, true};
constexpr int kThreads[] = {1, 2, 3};
constexpr int kPrefetches[] = {0, 1, 3};
constexpr int64_t kBuckets[] = {1, 20 << 10, 32 << 20};

// The product of all choices, without what the promise leaves out.
std::vector<Case> Everything() {
  std::vector<Case> cases;
  for (uint32_t number = 0;; ++number) {
    // The choices are the digits of `number`, each to its own base.
    size_t rest = number;
    const auto pick = [&rest](const auto& choices) {
      const auto choice = choices[rest % std::size(choices)];
      rest /= std::size(choices);
      return choice;
    };
    Case c;
    c.dtype = pick(kDTypes);
    c.sum_group = pick(kSumGroups);
    c.stage = pick(kStages);
    c.world = pick(kWorlds);
    c.recompute = pick(kRecompute);
    c.threads = pick(kThreads);
    c.prefetch = pick(kPrefetches);
    c.bucket_bytes = pick(kBuckets);
    if (rest != 0) return cases;
    const RandomKey random = {2, RandomPurpose::kSample};
    c.jitter_seed = random.Word(number) % 4;  // one case in four without delays
    if (SumOrderIsCanonical(c.plan())) cases.push_back(c);
  }
}

// The settings of a case as numbered choices, for counting pairs of them.
std::vector<std::pair<int, int64_t>> Settings(const Case& c) {
  const int64_t values[] = {static_cast<int64_t>(c.dtype),
                            c.sum_group,
                            c.stage,
                            c.world,
                            c.recompute,
                            c.threads,
                            c.prefetch,
                            c.bucket_bytes};
  std::vector<std::pair<int, int64_t>> settings;
  for (int64_t value : values) settings.emplace_back(static_cast<int>(settings.size()), value);
  return settings;
}

using Pair = std::pair<std::pair<int, int64_t>, std::pair<int, int64_t>>;

std::set<Pair> PairsOf(const std::vector<Case>& cases) {
  std::set<Pair> pairs;
  for (const Case& c : cases) {
    const auto settings = Settings(c);
    for (size_t i = 0; i < settings.size(); ++i) {
      for (size_t j = i + 1; j < settings.size(); ++j) pairs.insert({settings[i], settings[j]});
    }
  }
  return pairs;
}

// For each (dtype, sum group, stage, world), `each` cases of all that there are.
std::vector<Case> Sample(const std::vector<Case>& all, size_t each) {
  std::map<std::tuple<DType, int, int, int>, std::vector<Case>> groups;
  for (const Case& c : all) groups[{c.dtype, c.sum_group, c.stage, c.world}].push_back(c);
  std::vector<Case> sample;
  uint32_t draws = 0;
  for (auto& [key, group] : groups) {
    for (size_t i = 0; i < each; ++i) {
      const RandomKey random = {1, RandomPurpose::kSample, draws++};
      std::swap(group[i], group[i + random.Word(0) % (group.size() - i)]);
      sample.push_back(group[i]);
    }
  }
  return sample;
}

// TESSERA_LONG=1 runs the whole product, which takes minutes.
TEST(SameBits, Matrix) {
  const std::vector<Case> all = Everything();
  const std::vector<Case> sample = Sample(all, kSanitized ? 1 : 3);
  if (!kSanitized) {
    ASSERT_EQ(PairsOf(sample), PairsOf(all)) << "the sample misses a pair of settings";
  }
  const std::vector<Case>& cases = std::getenv("TESSERA_LONG") != nullptr ? all : sample;
  for (size_t i = 0; i < cases.size(); i += kRunEvery) {
    ASSERT_NO_FATAL_FAILURE(ExpectSameBits(cases[i]));
  }
}

// Stages 2 and 3 keep the promise in every world, and with any accumulation.
TEST(SameBits, OddWorlds) {
  uint64_t jitter_seed = 0;
  for (DType dtype : kDTypes) {
    for (int sum_group : kSumGroups) {
      for (int stage : {2, 3}) {
        for (const auto& [world, micro_batches] :
             {std::pair{3, 15}, std::pair{5, 15}, std::pair{3, 9}, std::pair{2, 6}}) {
          if (++jitter_seed % kRunEvery != 0) continue;
          ExpectSameBits({.dtype = dtype,
                          .micro_batches = micro_batches,
                          .sum_group = sum_group,
                          .stage = stage,
                          .world = world,
                          .recompute = jitter_seed % 2 == 0,
                          .threads = 1 + world % 2,
                          .prefetch = kPrefetches[jitter_seed / 2 % 3],
                          .bucket_bytes = kBuckets[jitter_seed / 3 % 3],
                          .jitter_seed = jitter_seed});
        }
      }
    }
  }
}

// Stages 0 and 1 do too where each rank has one micro-batch.
TEST(SameBits, OddWorldsWithoutAccumulation) {
  for (int stage : {0, 1}) {
    for (int world : {3, 5}) {
      ExpectSameBits({.micro_batches = world, .stage = stage, .world = world, .jitter_seed = 1});
    }
  }
}

TEST(SameBits, OneMicroBatch) {
  for (int stage : {1, 2, 3}) ExpectSameBits({.micro_batches = 1, .stage = stage});
}

// Where a rank's own sum is not a subtree of the canonical one, the promise is
// withdrawn; that it would be broken shows that the tests above compare something.
TEST(SameBits, PromiseIsWithdrawnWhereTheOrderDiffers) {
  for (int stage : {0, 1}) {
    for (const auto& [micro_batches, sum_group] :
         {std::pair{6, 1}, std::pair{8, 8}, std::pair{12, 4}}) {
      const Case reference = {.micro_batches = micro_batches, .sum_group = sum_group};
      Case c = reference;
      c.stage = stage;
      c.world = 2;
      SCOPED_TRACE(c.ToString());
      EXPECT_TRUE(SumOrderIsCanonical(reference.plan()));
      EXPECT_FALSE(SumOrderIsCanonical(c.plan()));
      const absl::StatusOr<Outcome> want = Train(reference);
      const absl::StatusOr<Outcome> got = Train(c);
      ASSERT_TRUE(want.ok()) << want.status();
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_NE(want->weights, got->weights);
      for (size_t step = 0; step < want->losses.size(); ++step) {
        EXPECT_NEAR(want->losses[step], got->losses[step], 1e-5);
      }
    }
  }
}

TEST(SameBits, DelaysDoNotMatter) {
  for (int stage : {0, 3}) {
    for (uint64_t jitter_seed : {1, 2, 3}) {
      ExpectSameBits({.stage = stage,
                      .world = 4,
                      .prefetch = 3,
                      .bucket_bytes = 20 << 10,
                      .jitter_seed = jitter_seed});
    }
  }
}

// Each change alone, against the same run.
TEST(SameBits, WhatShouldMatterDoes) {
  const absl::StatusOr<Outcome> base = Train({});
  ASSERT_TRUE(base.ok()) << base.status();
  const auto expect_other = [&](const char* what, const Case& c, const RunOptions& options) {
    const absl::StatusOr<Outcome> other = Train(c, options);
    ASSERT_TRUE(other.ok()) << what << ": " << other.status();
    EXPECT_NE(base->weights, other->weights) << what;
    EXPECT_NE(base->weights_digest, other->weights_digest) << what;
    EXPECT_NE(base->validation_loss, other->validation_loss) << what;
  };
  const RunOptions same = SmallGpt2Options();
  expect_other("precision", {.dtype = DType::kBFloat16}, same);
  expect_other("global batch", {.micro_batches = 4}, same);
  expect_other("sum group", {.sum_group = 4}, same);
  RunOptions seed = same;
  seed.trainer.seed = 2;
  expect_other("seed", {}, seed);
  RunOptions learning_rate = same;
  learning_rate.learning_rate *= 0.99;
  expect_other("learning rate", {}, learning_rate);
  RunOptions clip = same;
  clip.trainer.optimizer.clip_norm = 0;
  expect_other("clipping", {}, clip);
}

}  // namespace
}  // namespace tessera::testing
