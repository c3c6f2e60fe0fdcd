#include <fstream>
#include <string>

#include "core/cpu_device.h"
#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "tests/support/small_gpt2.h"

namespace tessera::testing {
namespace {

// Anonymous memory of this process that is resident, in KiB.
int64_t AnonymousKib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "RssAnon:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib;
  }
  return -1;
}

// Evaluations and reports of the weights are part of a long run.
void ExpectNoGrowth(const Offload& offload) {
  int64_t early = 0, late = 0;
  InThreadWorld(2, [&](Communicator& communicator) {
    CpuDevice device({.lanes = kLanes, .threads = 2});
    TrainerOptions options = SmallGpt2Options().trainer;
    options.plan.stage = 3;
    options.plan.accumulation = 2;
    options.plan.recompute = true;
    options.plan.offload = offload;
    options.nvme_folder = ::testing::TempDir();
    auto trainer = Trainer::Create(SmallGpt2(DType::kBFloat16), options, device, communicator);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    SyntheticTokens source(kSmallVocabulary);
    for (int step = 1; step <= 200; ++step) {
      ASSERT_TRUE((*trainer)->Step(source, 1e-3).ok());
      if (step % 5 == 0) {
        ASSERT_TRUE((*trainer)->Evaluate(source, 4).ok());
        ASSERT_TRUE((*trainer)->WeightsDigest().ok());
      }
      if (communicator.rank() == 0 && step == 5) early = AnonymousKib();
      if (communicator.rank() == 0 && step == 200) late = AnonymousKib();
    }
  });
  EXPECT_GT(early, 0);
  EXPECT_LE(late - early, 4 << 10) << "KiB: " << early << " at step 5, " << late << " at step 200";
  ::testing::Test::RecordProperty("growth_kib", static_cast<int>(late - early));
}

TEST(SteadyMemory, NothingGrowsInALongRun) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  ExpectNoGrowth({});
}

TEST(SteadyMemory, NothingGrowsWithOffload) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  ExpectNoGrowth({{Tier::kNvme, 0.5}, {Tier::kHost, 1}, {Tier::kNvme, 1}, {Tier::kHost, 1}});
}

}  // namespace
}  // namespace tessera::testing
