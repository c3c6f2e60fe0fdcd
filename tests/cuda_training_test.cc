// Training on CUDA, on GPUs or where they are simulated.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "tests/support/checkpoints.h"
#include "tests/support/cuda_world.h"
#include "tests/support/small_gpt2.h"

namespace tessera::testing {
namespace {

struct Case {
  DType dtype = DType::kBFloat16;
  int stage = 0;
  int world = 1;
  bool recompute = false;
  int prefetch = 1;
  int64_t bucket_bytes = int64_t{32} << 20;
  Offload offload = {};

  std::string ToString() const {
    return absl::StrFormat(
        "%s, stage %d, world %d, recompute %d, prefetch %d, bucket %d; optimizer %s, gradients %s, "
        "parameters %s, activations %s",
        NameOf(dtype), stage, world, recompute, prefetch, bucket_bytes,
        NameOf(offload.optimizer.tier), NameOf(offload.gradients.tier),
        NameOf(offload.parameters.tier), NameOf(offload.activations.tier));
  }
};

absl::StatusOr<Outcome> TrainOnCuda(const Case& c, RunOptions options) {
  options.trainer.plan.snapshot = options.after != nullptr;
  options.trainer.plan.stage = c.stage;
  options.trainer.plan.recompute = c.recompute;
  options.trainer.plan.prefetch = c.prefetch;
  options.trainer.plan.bucket_bytes = c.bucket_bytes;
  options.trainer.plan.offload = c.offload;
  options.trainer.plan.tile_elements = kTileAlignment;
  options.trainer.nvme_folder = ::testing::TempDir();
  options.make_device = MakeCudaRank;
  SyntheticTokens source(kSmallVocabulary);
  return TrainInThreads(SmallGpt2(c.dtype), options, source, c.world, InCudaWorld);
}

class CudaTrainingTest : public ::testing::Test {
 protected:
  static RunOptions Options() {
    RunOptions options = SmallGpt2Options();
    options.steps = 2;
    options.micro_batches = 4;
    return options;
  }

  // Every call has a seed of its own.
  void ExpectSameBits(const Case& c) {
    if (c.world > LargestCudaWorld()) return;
    SetCudaSeed(++seed_);
    SCOPED_TRACE(c.ToString() + absl::StrFormat(", seed %d", seed_));
    static auto& references = *new References<DType>;
    const absl::StatusOr<Outcome> reference =
        references.Of(c.dtype, [&] { return TrainOnCuda({.dtype = c.dtype}, Options()); });
    ASSERT_TRUE(reference.ok()) << reference.status();
    const absl::StatusOr<Outcome> outcome = TrainOnCuda(c, Options());
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(Difference(*reference, *outcome), "");
  }

  uint64_t seed_ = 0;
};

// Stages, worlds, buckets, prefetch and recomputation, each case with another order of
// what streams and threads do. TESSERA_LONG=1 runs the whole product.
TEST_F(CudaTrainingTest, SameBits) {
  const bool everything = std::getenv("TESSERA_LONG") != nullptr;
  int number = 0;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int world : {1, 2, 4}) {
        for (const int64_t bucket : {int64_t{1} << 10, int64_t{20} << 10, int64_t{32} << 20}) {
          for (const int prefetch : {0, 1, 3}) {
            for (const bool recompute : {false, true}) {
              const int run_every = everything ? 1 : kThreadSanitized ? 190 : kSanitized ? 61 : 7;
              if (number++ % run_every != 0) continue;
              ASSERT_NO_FATAL_FAILURE(
                  ExpectSameBits({dtype, stage, world, recompute, prefetch, bucket}));
            }
          }
        }
      }
    }
  }
}

// The same with the optimizer, gradients, parameters and activations in other tiers, of
// which the host's is pinned: updates and sums of the host have the bits of the GPU's.
TEST_F(CudaTrainingTest, SameBitsWithOffload) {
  const bool everything = std::getenv("TESSERA_LONG") != nullptr;
  const Placement host = {Tier::kHost, 1};
  const Placement some = {Tier::kHost, 0.3};
  const Placement nvme = {Tier::kNvme, 1};
  int number = 0;
  for (const Offload& offload :
       {Offload{host, {}, {}, {}}, Offload{{}, {}, host, host}, Offload{some, host, some, {}},
        Offload{nvme, nvme, nvme, nvme}, Offload{{}, nvme, {}, some}}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int world : {1, 2, 4}) {
        const int run_every = everything ? 1 : kThreadSanitized ? 37 : kSanitized ? 13 : 3;
        if (number++ % run_every != 0) continue;
        ASSERT_NO_FATAL_FAILURE(
            ExpectSameBits({.dtype = number % 4 < 2 ? DType::kBFloat16 : DType::kFloat32,
                            .stage = stage,
                            .world = world,
                            .recompute = number % 2 == 0,
                            .offload = offload}));
      }
    }
  }
}

// A run that was saved goes on in another world and stage to the same bits, and on the
// other backend to rounding.
TEST_F(CudaTrainingTest, GoesOnFromACheckpoint) {
  const std::string folder = ::testing::TempDir() + "/cuda_checkpoints";
  const Case first = {.stage = 3, .world = std::min(2, LargestCudaWorld())};
  const Case second = {.stage = 1, .offload = {{Tier::kHost, 0.5}, {}, {}, {}}};
  SetCudaSeed(2000);
  RunOptions options = Options();
  const absl::StatusOr<Outcome> whole = TrainOnCuda(first, options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  options.steps = 1;
  options.after = SaveTo(folder);
  const absl::StatusOr<Outcome> begun = TrainOnCuda(first, options);
  ASSERT_TRUE(begun.ok()) << begun.status();
  options.after = nullptr;
  options.before = LoadFrom(folder + "/step-00000001");
  const absl::StatusOr<Outcome> same = TrainOnCuda(second, options);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->losses[0], whole->losses[1]);
  EXPECT_EQ(same->weights, whole->weights);
  SyntheticTokens source(kSmallVocabulary);
  const absl::StatusOr<Outcome> cpu = TrainInThreads(SmallGpt2(first.dtype), options, source, 1);
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  EXPECT_NEAR(cpu->losses[0], whole->losses[1], 2e-2);
  std::filesystem::remove_all(folder);
}

// The backends agree to rounding, step by step.
TEST_F(CudaTrainingTest, AgreesWithTheCpu) {
  for (const Case& c : {Case{.dtype = DType::kFloat32, .stage = 0, .world = 1},
                        Case{.dtype = DType::kBFloat16, .stage = 3, .world = 2}}) {
    if (c.world > LargestCudaWorld()) continue;
    SetCudaSeed(1000 + c.world);
    RunOptions options = Options();
    options.steps = kThreadSanitized ? 1 : kSanitized ? 3 : 20;
    SCOPED_TRACE(c.ToString());
    const absl::StatusOr<Outcome> cuda = TrainOnCuda(c, options);
    ASSERT_TRUE(cuda.ok()) << cuda.status();
    SyntheticTokens source(kSmallVocabulary);
    const absl::StatusOr<Outcome> cpu = TrainInThreads(SmallGpt2(c.dtype), options, source, 1);
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    const double tolerance = c.dtype == DType::kFloat32 ? 2e-5 : 2e-2;
    for (int step = 0; step < options.steps; ++step) {
      EXPECT_NEAR(cuda->losses[step], cpu->losses[step], tolerance) << "step " << step;
      EXPECT_NEAR(cuda->norms[step], cpu->norms[step], 5 * tolerance) << "step " << step;
    }
    EXPECT_NEAR(cuda->validation_loss, cpu->validation_loss, tolerance);
  }
}

}  // namespace
}  // namespace tessera::testing
