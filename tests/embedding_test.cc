// The library embedded in a program that brings a model and data of its own.

#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/cpu_device.h"
#include "core/sanitizers.h"
#include "core/single_communicator.h"
#include "gtest/gtest.h"
#include "sharding/trainer.h"
#include "tests/support/regression_model.h"
#include "tests/support/training.h"

namespace tessera::testing {
namespace {

// A test with many cases runs every so many of them.
constexpr int kRunEvery = kSanitized ? 5 : 1;

RunOptions Options(int64_t micro_batches) {
  RunOptions options;
  options.micro_batches = micro_batches;
  options.trainer.plan.micro_sequences = 3;
  return options;
}

// Loss after `steps` steps in a world of threads at stage 3.
double LossAfter(int steps, DType dtype) {
  double loss = 0;
  InThreadWorld(2, [&](Communicator& communicator) {
    CpuDevice device({.lanes = kLanes, .threads = 1});
    TrainerOptions options;
    options.plan.stage = 3;
    options.plan.micro_sequences = 16;
    options.optimizer.weight_decay = 0;
    auto trainer = Trainer::Create(MakeRegression({}, dtype), options, device, communicator);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    RegressionData data;
    for (int step = 0; step < steps; ++step) {
      const auto result = (*trainer)->Step(data, 1e-2);
      ASSERT_TRUE(result.ok()) << result.status();
    }
    const absl::StatusOr<double> evaluation = (*trainer)->Evaluate(data, 8);
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    if (communicator.rank() == 0) loss = *evaluation;
  });
  return loss;
}

TEST(Embedding, Learns) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const double before = LossAfter(0, dtype);
    const double after = LossAfter(400, dtype);
    EXPECT_GT(before, 0.1) << NameOf(dtype);
    EXPECT_LT(after, before / 10) << NameOf(dtype);
  }
}

// What a device or a library says of a failure names no instruction; the engine does.
TEST(Embedding, FailuresNameTheInstruction) {
  class Broken : public BatchSource {
   public:
    absl::Status Read(int64_t /*first*/, int64_t /*sequences*/,
                      absl::Span<const Tensor> /*fields*/) override {
      return absl::InternalError("a call failed");
    }
  };
  SingleCommunicator communicator;
  CpuDevice device({.lanes = kLanes, .threads = 1});
  auto trainer =
      *Trainer::Create(MakeRegression({}, DType::kFloat32), TrainerOptions(), device, communicator);
  Broken source;
  EXPECT_EQ(trainer->Step(source, 0).status(),
            absl::InternalError("a call failed; in the host lane: stage_batch micro-step 0"));
}

// The engine's derivative of this model against differences of its loss.
TEST(Embedding, GradientsAreDerivatives) {
  const Model model = MakeRegression({}, DType::kFloat32);
  TrainerOptions options;
  options.plan.micro_sequences = 3;
  options.plan.accumulation = 2;
  options.plan.recompute = true;
  options.optimizer.clip_norm = 0;
  RegressionData data;
  // The loss of the first step, and the gradient (momentum over 1 - beta1), with
  // one weight moved by `delta`.
  const auto run = [&](int unit, int parameter, int64_t element, float delta, double* gradient) {
    SingleCommunicator communicator;
    CpuDevice device({.lanes = kLanes, .threads = 1});
    auto trainer = *Trainer::Create(model, options, device, communicator);
    std::vector<float> values = *trainer->Read(Trainer::State::kMaster, unit, parameter);
    values[element] += delta;
    EXPECT_TRUE(trainer->Write(Trainer::State::kMaster, unit, parameter, 0, values).ok());
    const double loss = trainer->Step(data, 0)->loss;
    *gradient = (*trainer->Read(Trainer::State::kMomentum, unit, parameter))[element] /
                (1 - options.optimizer.beta1);
    return loss;
  };
  for (const auto& [unit, parameter, element] :
       std::vector<std::tuple<int, int, int64_t>>{{0, 0, 0},  // tied
                                                  {0, 0, 74},
                                                  {0, 1, 14},
                                                  {1, 0, 224},  // of the unit used twice
                                                  {1, 1, 3},
                                                  {2, 0, 0}}) {
    constexpr float kDelta = 1e-2f;
    double gradient = 0, ignored = 0;
    run(unit, parameter, element, 0, &gradient);
    const double above = run(unit, parameter, element, kDelta, &ignored);
    const double below = run(unit, parameter, element, -kDelta, &ignored);
    EXPECT_GT(std::abs(gradient), 1e-4);
    EXPECT_NEAR(gradient, (above - below) / (2 * kDelta), 1e-3 * std::abs(gradient) + 2e-5)
        << unit << " " << parameter << " " << element;
  }
}

// Units smaller than the world, empty ones, every world up to five, accumulation
// of any number. Memory and traffic are checked in each run.
TEST(Embedding, SameBits) {
  int runs = 0;
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = MakeRegression({}, dtype);
    RegressionData data;
    for (int64_t micro_batches : {1, 3, 4, 5, 6, 12, 15}) {
      const absl::StatusOr<Outcome> want = TrainInThreads(model, Options(micro_batches), data, 1);
      ASSERT_TRUE(want.ok()) << want.status();
      for (int world : {1, 2, 3, 4, 5}) {
        if (micro_batches % world != 0) continue;
        for (int stage : {0, 1, 2, 3}) {
          RunOptions options = Options(micro_batches);
          PlanOptions& plan = options.trainer.plan;
          plan.stage = stage;
          plan.world = world;
          plan.accumulation = static_cast<int>(micro_batches / world);
          if (!SumOrderIsCanonical(plan)) continue;
          if (++runs % kRunEvery != 0) continue;
          plan.recompute = (world + stage) % 2 == 0;
          plan.prefetch = stage + world % 2;
          plan.bucket_bytes = world % 2 == 0 ? 1 : 32 << 20;
          options.threads = 1 + stage % 2;
          options.jitter_seed = 1 + stage + world;
          const absl::StatusOr<Outcome> got = TrainInThreads(model, options, data, world);
          const std::string name = absl::StrFormat("%s, %d micro-batches, world %d, stage %d",
                                                   NameOf(dtype), micro_batches, world, stage);
          ASSERT_TRUE(got.ok()) << got.status() << ": " << name;
          EXPECT_EQ(Difference(*want, *got), "") << name;
        }
      }
    }
  }
}

// Parameters of one element only, and wide ones that span several chunks.
TEST(Embedding, OtherWidths) {
  for (const RegressionConfig& config :
       {RegressionConfig{1, 1}, RegressionConfig{7, 1}, RegressionConfig{3, 67}}) {
    const Model model = MakeRegression(config, DType::kFloat32);
    RegressionData data;
    RunOptions options = Options(6);
    const absl::StatusOr<Outcome> want = TrainInThreads(model, options, data, 1);
    ASSERT_TRUE(want.ok()) << want.status();
    for (int stage : {2, 3}) {
      options.trainer.plan.stage = stage;
      options.jitter_seed = stage;
      const absl::StatusOr<Outcome> got = TrainInThreads(model, options, data, 3);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(Difference(*want, *got), "") << config.features << " " << config.width;
    }
  }
}

}  // namespace
}  // namespace tessera::testing
