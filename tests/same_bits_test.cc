#include <cmath>

#include "gtest/gtest.h"
#include "models/gpt2.h"
#include "tests/support/training.h"

namespace tessera {
namespace {

using testing::Difference;
using testing::Outcome;
using testing::RunOptions;
using testing::SyntheticTokens;
using testing::TrainInThreads;

constexpr int kVocabulary = 61;  // prime

Model SmallGpt2(DType dtype) {
  return *MakeGpt2({.layers = 2,
                    .heads = 2,
                    .width = 32,
                    .context = 16,
                    .vocabulary = kVocabulary,
                    .dropout = 0.1f},
                   dtype);
}

RunOptions Options() {
  RunOptions options;
  options.trainer.plan.micro_sequences = 2;
  options.trainer.optimizer.clip_norm = 0.5;
  return options;
}

TEST(SameBits, First) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = SmallGpt2(dtype);
    SyntheticTokens source(kVocabulary);
    RunOptions options = Options();
    const absl::StatusOr<Outcome> want = TrainInThreads(model, options, source, 1);
    ASSERT_TRUE(want.ok()) << want.status();
    for (double loss : want->losses) std::printf("%.6f ", loss);
    std::printf("norm %.6f validation %.6f\n", want->norms[0], want->validation_loss);
    for (int stage = 0; stage <= 3; ++stage) {
      for (int world : {1, 2, 4, 8}) {
        options.trainer.plan.stage = stage;
        options.trainer.plan.recompute = world == 2;
        options.threads = 1 + world % 3;
        options.jitter_seed = stage * 10 + world;
        const absl::StatusOr<Outcome> got = TrainInThreads(model, options, source, world);
        ASSERT_TRUE(got.ok()) << got.status() << " stage " << stage << " world " << world;
        EXPECT_EQ(Difference(*want, *got), "") << "stage " << stage << " world " << world;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
