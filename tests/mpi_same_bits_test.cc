#include <memory>

#include "core/mpi_communicator.h"
#include "core/sanitizers.h"
#include "core/single_communicator.h"
#include "gtest/gtest.h"
#include "tests/support/small_gpt2.h"

namespace tessera::testing {
namespace {

// A process joins its world once, so the tests share it.
Communicator* world = nullptr;

// Every rank compares with a run of its own that is alone in the world.
void ExpectSameBits(DType dtype, int64_t sum_group) {
  const Model model = SmallGpt2(dtype);
  SyntheticTokens source(kSmallVocabulary);
  RunOptions options = SmallGpt2Options();
  options.micro_batches = 4;
  PlanOptions& plan = options.trainer.plan;
  plan.sum_group = sum_group;
  SingleCommunicator alone;
  const absl::StatusOr<Outcome> want = TrainAsRank(model, options, source, alone);
  ASSERT_TRUE(want.ok()) << want.status();

  for (plan.stage = 0; plan.stage <= 3; ++plan.stage) {
    plan.world = world->size();
    plan.accumulation = 4 / world->size();
    if (!SumOrderIsCanonical(plan)) continue;
    for (bool recompute : {false, true}) {
      if (kSanitized && recompute) continue;
      plan.recompute = recompute;
      plan.prefetch = recompute ? 3 : plan.stage % 2;
      plan.bucket_bytes = recompute ? 20 << 10 : 32 << 20;
      options.threads = 1 + plan.stage % 3;
      options.jitter_seed = 1 + plan.stage;
      const absl::StatusOr<Outcome> got = TrainAsRank(model, options, source, *world);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(Difference(*want, *got), "")
          << NameOf(dtype) << ", sum group " << sum_group << ", stage " << plan.stage
          << ", recompute " << recompute;
    }
  }
}

TEST(MpiSameBits, Float32) { ExpectSameBits(DType::kFloat32, 1); }

TEST(MpiSameBits, BFloat16) { ExpectSameBits(DType::kBFloat16, 1); }

TEST(MpiSameBits, SumGroups) { ExpectSameBits(DType::kFloat32, 2); }

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto world = tessera::JoinMpiWorld();
  if (!world.ok()) return 1;
  tessera::testing::world = world->get();
  return RUN_ALL_TESTS();
}
