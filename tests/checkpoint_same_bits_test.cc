// A run that is interrupted and goes on, in any other world, stage and placement, is the
// run that was never interrupted.

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/philox.h"
#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "sharding/checkpoint/checkpointer.h"
#include "tests/support/checkpoints.h"
#include "tests/support/small_gpt2.h"

namespace tessera::testing {
namespace {

constexpr int kMicroBatches = 24;  // which 1, 2, 3, 4 and 8 divide
constexpr int kSumGroup = 3;       // with which all but 3 ranks add as one does

struct Arrangement {
  int world = 1;
  int stage = 0;
  int placement = 0;
  DType dtype = DType::kBFloat16;

  RunOptions Options() const {
    constexpr Placement kHost = {Tier::kHost, 1};
    constexpr Placement kSomeNvme = {Tier::kNvme, 0.4};
    RunOptions options = SmallGpt2Options();
    PlanOptions& plan = options.trainer.plan;
    plan.micro_sequences = 1;
    plan.stage = stage;
    plan.world = world;
    plan.sum_group = kSumGroup;
    plan.accumulation = kMicroBatches / world;
    plan.snapshot = true;
    plan.tile_elements = kTileAlignment;
    if (placement == 1) plan.offload = {kHost, kHost, kHost, kHost};
    if (placement == 2) plan.offload = {kSomeNvme, kHost, kSomeNvme, {}};
    options.trainer.nvme_folder = ::testing::TempDir();
    options.micro_batches = kMicroBatches;
    return options;
  }

  std::string ToString() const {
    return absl::StrCat(NameOf(dtype), " ", world, " ranks, stage ", stage, ", placement ",
                        placement);
  }
};

// Every world and stage that keeps the promise of same bits.
std::vector<Arrangement> Arrangements() {
  std::vector<Arrangement> arrangements;
  for (const int world : {1, 2, 3, 4, 8}) {
    for (int stage = 0; stage <= 3; ++stage) {
      const Arrangement arrangement = {world, stage};
      if (SumOrderIsCanonical(arrangement.Options().trainer.plan))
        arrangements.push_back(arrangement);
    }
  }
  return arrangements;
}

class CheckpointSameBits : public ::testing::Test {
 protected:
  CheckpointSameBits() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/checkpoints-XXXXXX");
    root_ = mkdtemp(pattern.data());
  }
  ~CheckpointSameBits() override { std::filesystem::remove_all(root_); }

  // Trains for so many steps, from the checkpoint `from` on ("": from the beginning), and
  // saves to the folder `to` (""): does not.
  absl::StatusOr<Outcome> Train(const Arrangement& arrangement, const std::string& from, int steps,
                                const std::string& to) {
    RunOptions options = arrangement.Options();
    options.steps = steps;
    if (!from.empty()) options.before = LoadFrom(from);
    if (!to.empty()) options.after = SaveTo(absl::StrCat(root_, "/", to));
    SyntheticTokens source(kSmallVocabulary);
    return TrainInThreads(SmallGpt2(arrangement.dtype), options, source, arrangement.world);
  }

  std::string PathOf(const std::string& name, int step) const {
    return absl::StrCat(root_, "/", name, "/step-0000000", step);
  }

  // A checkpoint after two steps of each arrangement, made once.
  std::string Saved(const Arrangement& arrangement) {
    const std::string name = absl::StrCat("w", arrangement.world, "s", arrangement.stage, "p",
                                          arrangement.placement, NameOf(arrangement.dtype));
    if (saved_.insert(name).second) {
      const absl::StatusOr<Outcome> outcome = Train(arrangement, "", 2, name);
      EXPECT_TRUE(outcome.ok()) << outcome.status();
    }
    return PathOf(name, 2);
  }

  // The run of four steps that is not interrupted.
  const Outcome& Whole(DType dtype) {
    auto found = whole_.find(dtype);
    if (found == whole_.end()) {
      const absl::StatusOr<Outcome> outcome = Train({1, 0, 0, dtype}, "", 4, "");
      EXPECT_TRUE(outcome.ok()) << outcome.status();
      found = whole_.emplace(dtype, *outcome).first;
    }
    return found->second;
  }

  // Whether a run ends as the one that is not interrupted; it did the last of its steps.
  void ExpectEndOf(const Outcome& whole, absl::StatusOr<Outcome> part) {
    ASSERT_TRUE(part.ok()) << part.status();
    const size_t missing = whole.losses.size() - part->losses.size();
    part->losses.insert(part->losses.begin(), whole.losses.begin(), whole.losses.begin() + missing);
    part->norms.insert(part->norms.begin(), whole.norms.begin(), whole.norms.begin() + missing);
    ASSERT_EQ(Difference(whole, *part), "");
  }

  std::string root_;
  std::set<std::string> saved_;
  std::map<DType, Outcome> whole_;
};

// TESSERA_LONG=1 takes every pair of worlds and stages; else some are drawn.
TEST_F(CheckpointSameBits, SavedAnywhereGoesOnAnywhere) {
  const std::vector<Arrangement> arrangements = Arrangements();
  const RandomKey random = {5, RandomPurpose::kSample, 0};
  uint32_t draws = 0;
  const auto pick = [&](size_t choices) { return random.Word(draws++) % choices; };
  std::vector<std::pair<size_t, size_t>> pairs;
  if (std::getenv("TESSERA_LONG") != nullptr) {
    for (size_t a = 0; a < arrangements.size(); ++a) {
      for (size_t b = 0; b < arrangements.size(); ++b) pairs.emplace_back(a, b);
    }
  } else {
    const int drawn = kThreadSanitized ? 3 : kSanitized ? 10 : 60;
    for (int pair = 0; pair < drawn; ++pair) {
      const size_t a = pick(arrangements.size());
      pairs.emplace_back(a, pick(arrangements.size()));
    }
  }
  for (const auto& [a, b] : pairs) {
    Arrangement first = arrangements[a], second = arrangements[b];
    first.placement = static_cast<int>(pick(3));
    second.placement = static_cast<int>(pick(3));
    first.dtype = second.dtype = pick(3) == 0 ? DType::kFloat32 : DType::kBFloat16;
    SCOPED_TRACE(absl::StrCat(first.ToString(), " to ", second.ToString()));
    ExpectEndOf(Whole(first.dtype), Train(second, Saved(first), 2, ""));
    if (HasFatalFailure()) return;
  }
}

TEST_F(CheckpointSameBits, AResumeOfAResumeOfAResume) {
  ASSERT_TRUE(Train({4, 3}, "", 1, "a").ok());
  ASSERT_TRUE(Train({1, 0, 2}, PathOf("a", 1), 1, "b").ok());
  ASSERT_TRUE(Train({3, 2, 1}, PathOf("b", 2), 1, "c").ok());
  ExpectEndOf(Whole(DType::kBFloat16), Train({2, 1}, PathOf("c", 3), 1, ""));
}

TEST_F(CheckpointSameBits, BeforeTheFirstStep) {
  ASSERT_TRUE(Train({2, 3}, "", 0, "a").ok());
  ExpectEndOf(Whole(DType::kBFloat16), Train({1, 0}, PathOf("a", 0), 4, ""));
}

// It is written while training goes on, which must not change it, nor it training.
TEST_F(CheckpointSameBits, WrittenWhileTrainingGoesOn) {
  RunOptions options = Arrangement{2, 3}.Options();
  options.steps = 0;
  SyntheticTokens source(kSmallVocabulary);
  const std::string folder = absl::StrCat(root_, "/a");
  options.after = [&](Trainer& trainer, Communicator& communicator) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpointer> checkpointer,
                             Checkpointer::Create({.folder = folder}, trainer, communicator));
    int saved = 0;
    for (int step = 0; step < 4; ++step) {
      TESSERA_RETURN_IF_ERROR(checkpointer->Begin());
      TESSERA_RETURN_IF_ERROR(trainer.Step(source, options.learning_rate).status());
      std::optional<Checkpointer::Outcome> outcome;
      while (!outcome) {
        TESSERA_ASSIGN_OR_RETURN(outcome, checkpointer->Poll());
      }
      TESSERA_RETURN_IF_ERROR(outcome->status);
      if (outcome->step == step && outcome->path == PathOf("a", step)) ++saved;
    }
    return saved == 4 || communicator.rank() > 0 ? absl::OkStatus() : absl::InternalError("lost");
  };
  const absl::StatusOr<Outcome> outcome =
      TrainInThreads(SmallGpt2(DType::kBFloat16), options, source, 2);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->weights, Whole(DType::kBFloat16).weights);
  EXPECT_FALSE(std::filesystem::exists(PathOf("a", 0)));  // the last three are kept
  for (const int step : {1, 2, 3}) {
    ExpectEndOf(Whole(DType::kBFloat16), Train({1, 0}, PathOf("a", step), 4 - step, ""));
  }
}

TEST_F(CheckpointSameBits, OfAnotherModel) {
  const std::string path = Saved({1, 0});
  RunOptions options = Arrangement{1, 0}.Options();
  options.before = LoadFrom(path);
  SyntheticTokens source(kSmallVocabulary);
  const Model wider = *MakeGpt2(
      {.layers = 2, .heads = 2, .width = 64, .context = 16, .vocabulary = kSmallVocabulary},
      DType::kBFloat16);
  const absl::Status status = TrainInThreads(wider, options, source, 1).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_NE(status.message().find("it has master.embedding.wte.weight [61, 32] where this one "
                                  "has master.embedding.wte.weight [61, 64]"),
            absl::string_view::npos)
      << status;
}

// A save that fails costs a checkpoint, not the run.
TEST_F(CheckpointSameBits, AFolderThatIsGone) {
  RunOptions options = Arrangement{2, 2}.Options();
  options.steps = 0;
  SyntheticTokens source(kSmallVocabulary);
  const std::string folder = absl::StrCat(root_, "/a");
  options.after = [&](Trainer& trainer, Communicator& communicator) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpointer> checkpointer,
                             Checkpointer::Create({.folder = folder}, trainer, communicator));
    TESSERA_RETURN_IF_ERROR(checkpointer->Begin());
    TESSERA_ASSIGN_OR_RETURN(const Checkpointer::Outcome good, checkpointer->Wait());
    TESSERA_RETURN_IF_ERROR(good.status);
    TESSERA_RETURN_IF_ERROR(trainer.Step(source, options.learning_rate).status());
    if (communicator.rank() == 0) {
      std::filesystem::remove_all(folder);
    }
    TESSERA_RETURN_IF_ERROR(communicator.Barrier());
    TESSERA_RETURN_IF_ERROR(checkpointer->Begin());
    TESSERA_ASSIGN_OR_RETURN(const Checkpointer::Outcome bad, checkpointer->Wait());
    if (bad.status.ok()) return absl::InternalError("saved to a folder that is gone");
    return trainer.Step(source, options.learning_rate).status();
  };
  const absl::StatusOr<Outcome> outcome =
      TrainInThreads(SmallGpt2(DType::kBFloat16), options, source, 2);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace tessera::testing
