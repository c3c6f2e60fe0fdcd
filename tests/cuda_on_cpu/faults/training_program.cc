#include <utility>

#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "tests/cuda_on_cpu/faults/planted.h"
#include "tests/support/cuda_world.h"
#include "tests/support/small_gpt2.h"

// The smallest training that uses every lane and collective. Without a fault in the
// first run, so that all runs with it must have the same bits.
namespace tessera::testing {
namespace {

constexpr int kSeeds = kThreadSanitized ? 1 : 4;
constexpr int kWorld = kThreadSanitized ? 2 : 4;

absl::StatusOr<Outcome> Train(int stage, int world) {
  RunOptions options = SmallGpt2Options();
  options.steps = 2;
  options.micro_batches = 4;
  options.trainer.plan.stage = stage;
  options.trainer.plan.bucket_bytes = int64_t{20} << 10;
  options.make_device = MakeCudaRank;
  SyntheticTokens source(kSmallVocabulary);
  return TrainInThreads(SmallGpt2(DType::kBFloat16), options, source, world, InCudaWorld);
}

TEST(FaultyTraining, SameBits) {
  const int fault = std::exchange(planted_fault, 0);
  const absl::StatusOr<Outcome> reference = Train(0, 1);
  ASSERT_TRUE(reference.ok()) << reference.status();
  planted_fault = fault;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    SetCudaSeed(seed);
    const absl::StatusOr<Outcome> outcome = Train(3, kWorld);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_EQ(Difference(*reference, *outcome), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace tessera::testing

// Ends at the first report, with a status of its own.
extern "C" const char* __tsan_default_options() {
  return "exitcode=66:halt_on_error=1:symbolize=0:atexit_sleep_ms=0";
}
