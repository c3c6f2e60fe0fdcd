#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/cpu_device.h"
#include "core/philox.h"
#include "core/sanitizers.h"
#include "core/single_communicator.h"
#include "gtest/gtest.h"
#include "sharding/plan.h"
#include "tests/support/small_gpt2.h"

namespace tessera::testing {
namespace {

constexpr Placement kPlacements[] = {{},
                                     {Tier::kHost, 0},
                                     {Tier::kHost, 0.3},
                                     {Tier::kHost, 1},
                                     {Tier::kNvme, 0.3},
                                     {Tier::kNvme, 1}};
constexpr int kSettings = std::size(kPlacements);

struct Case {
  DType dtype = DType::kFloat32;
  int accumulation = 1;
  int sum_group = 1;

  int stage = 0;
  int world = 1;
  bool recompute = false;
  int threads = 1;
  int prefetch = 1;
  int64_t tile_elements = PlanOptions().tile_elements;
  std::vector<int> placements = {0, 0, 0, 0};  // of kPlacements, in the order of Offload
  uint64_t jitter_seed = 0;

  PlanOptions plan() const {
    PlanOptions plan = SmallGpt2Options().trainer.plan;
    plan.stage = stage;
    plan.world = world;
    plan.accumulation = accumulation;
    plan.sum_group = sum_group;
    plan.recompute = recompute;
    plan.prefetch = prefetch;
    plan.tile_elements = tile_elements;
    plan.offload = {kPlacements[placements[0]], kPlacements[placements[1]],
                    kPlacements[placements[2]], kPlacements[placements[3]]};
    return plan;
  }

  std::string ToString() const {
    std::string text = absl::StrCat(NameOf(dtype), ", accumulation ", accumulation, ", sum group ",
                                    sum_group, ", stage ", stage, ", world ", world, ", recompute ",
                                    recompute, ", threads ", threads, ", prefetch ", prefetch,
                                    ", tile ", tile_elements, ", jitter ", jitter_seed, "; placed");
    for (int placement : placements) {
      absl::StrAppend(&text, " ", NameOf(kPlacements[placement].tier), " ",
                      kPlacements[placement].fraction);
    }
    return text;
  }
};

absl::StatusOr<Outcome> Train(const Case& c) {
  RunOptions options = SmallGpt2Options();
  options.trainer.plan = c.plan();
  options.trainer.nvme_folder = ::testing::TempDir();
  options.micro_batches = int64_t{c.accumulation} * c.world;
  options.threads = c.threads;
  options.jitter_seed = c.jitter_seed;
  SyntheticTokens source(kSmallVocabulary);
  return TrainInThreads(SmallGpt2(c.dtype), options, source, c.world);
}

// Compares with the run of one rank that keeps everything on the device.
void ExpectSameBits(const Case& c) {
  SCOPED_TRACE(c.ToString());
  ASSERT_TRUE(SumOrderIsCanonical(c.plan()));
  static auto& references = *new References<std::tuple<DType, int, int>>;
  Case plain;
  plain.dtype = c.dtype;
  plain.accumulation = c.accumulation * c.world;
  plain.sum_group = c.sum_group;
  const absl::StatusOr<Outcome> reference = references.Of(
      {plain.dtype, plain.accumulation, plain.sum_group}, [&] { return Train(plain); });
  ASSERT_TRUE(reference.ok()) << reference.status();
  const absl::StatusOr<Outcome> outcome = Train(c);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  ASSERT_EQ(Difference(*reference, *outcome), "");
}

// The choices for a case, drawn by its number.
Case Draw(uint32_t number) {
  const RandomKey random = {3, RandomPurpose::kSample, number};
  uint32_t draws = 0;
  const auto pick = [&](const auto& choices) {
    return choices[random.Word(draws++) % std::size(choices)];
  };
  Case c;
  do {
    c.dtype = pick(std::vector{DType::kFloat32, DType::kBFloat16});
    c.accumulation = pick(std::vector{1, 3, 4});
    c.sum_group = pick(std::vector{1, 1, 2});
    c.stage = pick(std::vector{0, 1, 2, 3});
    c.world = pick(std::vector{1, 2, 4});
    c.recompute = pick(std::vector{0, 1}) == 1;
    c.threads = pick(std::vector{1, 2});
    c.prefetch = pick(std::vector{0, 1, 3});
    c.tile_elements = pick(std::vector{kTileAlignment, PlanOptions().tile_elements});
    for (int& placement : c.placements) {
      placement = static_cast<int>(random.Word(draws++) % kSettings);
    }
    c.jitter_seed = random.Word(draws++) % 4;
  } while (!SumOrderIsCanonical(c.plan()));
  return c;
}

using Pair = std::tuple<int, int, int, int>;

// A category's placement beside another's, the stage, the world and the accumulation.
std::set<Pair> PairsOf(const Case& c) {
  std::vector<int> settings = c.placements;
  for (int setting : {c.stage, c.world, c.accumulation}) settings.push_back(setting);
  std::set<Pair> pairs;
  for (int a = 0; a < 4; ++a) {
    for (int b = a + 1; b < static_cast<int>(settings.size()); ++b) {
      pairs.insert({a, settings[a], b, settings[b]});
    }
  }
  return pairs;
}

// Cases until every pair of settings was met; TESSERA_LONG=1 leaves none out that has
// nothing new, and goes on to 2,000.
TEST(OffloadSameBits, Matrix) {
  const bool is_long = std::getenv("TESSERA_LONG") != nullptr;
  const size_t all = 6 * kSettings * kSettings + 4 * kSettings * (4 + 3 + 3);
  std::set<Pair> met;
  int cases = 0;
  for (uint32_t number = 0; number < 2000 && (is_long || met.size() < all); ++number) {
    const Case c = Draw(number);
    std::set<Pair> pairs = PairsOf(c);
    const auto is_new = [&](const Pair& pair) { return met.count(pair) == 0; };
    if (!is_long && std::none_of(pairs.begin(), pairs.end(), is_new)) continue;
    met.merge(pairs);
    if (cases++ % (kSanitized ? 11 : 1) != 0) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectSameBits(c));
  }
  EXPECT_EQ(met.size(), all) << "the cases miss a pair of settings";
}

// The third tier is as large as planned, too: bytes of the file without a name that the
// process has open in the folder.
TEST(OffloadSameBits, TheFileIsAsLargeAsPlanned) {
  const std::filesystem::path folder = ::testing::TempDir() + "/exact";
  std::filesystem::create_directory(folder);
  TrainerOptions options = SmallGpt2Options().trainer;
  const Placement nvme = {Tier::kNvme, 0.7};
  options.plan.offload = {nvme, nvme, nvme, nvme};
  options.nvme_folder = folder;
  CpuDevice device({.lanes = kLanes});
  SingleCommunicator communicator;
  const auto trainer = Trainer::Create(SmallGpt2(DType::kBFloat16), options, device, communicator);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error);
    if (target.find("/exact/") == std::string::npos) continue;
    struct stat file = {};
    ASSERT_EQ(stat(entry.path().c_str(), &file), 0);
    bytes += file.st_size;
  }
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(bytes, (*trainer)->plans().arena_bytes[Tier::kNvme]);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

// Of each category alone, everything: what a mixture may hide.
TEST(OffloadSameBits, EachAlone) {
  int number = 0;
  for (int category = 0; category < 4; ++category) {
    for (int placement = 1; placement < kSettings; ++placement) {
      for (int stage = 0; stage <= 3; ++stage) {
        for (int world : {1, 2}) {
          if (++number % (kSanitized ? 23 : 2) != 0) continue;
          Case c;
          c.dtype = number % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
          c.stage = stage;
          c.world = world;
          c.accumulation = number % 3 == 0 ? 4 : 1;
          c.recompute = number % 5 < 2;
          c.tile_elements = kTileAlignment;
          c.placements[category] = placement;
          c.jitter_seed = number;
          ASSERT_NO_FATAL_FAILURE(ExpectSameBits(c));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::testing
