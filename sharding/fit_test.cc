#include "sharding/fit.h"

#include <vector>

#include "gtest/gtest.h"
#include "models/gpt2.h"
#include "sharding/build.h"

namespace tessera {
namespace {

constexpr Freedom kFree = {true, true, true, true};

Model SmallModel() { return *MakeGpt2({3, 4, 64, 32, 256, 0}, DType::kBFloat16); }

TierBytes BytesWith(const Model& model, PlanOptions options, const Offload& offload) {
  options.offload = offload;
  return BuildPlans(model, options)->arena_bytes;
}

TEST(Fit, MovesNothingThatFits) {
  const Model model = SmallModel();
  const PlanOptions options;
  TierBytes capacity = BytesWith(model, options, {});
  EXPECT_EQ(*ChooseOffload(model, options, kFree, capacity), Offload());
  capacity[Tier::kDevice] -= 1;
  capacity[Tier::kHost] = kUnlimitedTiers[Tier::kHost];
  EXPECT_NE(*ChooseOffload(model, options, kFree, capacity), Offload());
}

// Whatever there is of each tier, the choice fits it; and it fails only where the most
// that can be moved does not fit.
TEST(Fit, FitsWhateverThereIs) {
  const Model model = SmallModel();
  for (int stage : {0, 3}) {
    PlanOptions options;
    options.stage = stage;
    options.world = stage == 0 ? 1 : 2;
    options.accumulation = 2;
    options.recompute = true;
    const TierBytes plain = BytesWith(model, options, {});
    const Placement host = {Tier::kHost, 1};
    const int64_t least = BytesWith(model, options, {host, host, host, host})[Tier::kDevice];
    for (int percent = 100; percent >= 20; percent -= 8) {
      for (const bool has_nvme : {false, true}) {
        TierBytes capacity = kUnlimitedTiers;
        capacity[Tier::kDevice] = plain[Tier::kDevice] * percent / 100;
        if (!has_nvme) capacity[Tier::kNvme] = 0;
        const absl::StatusOr<Offload> chosen = ChooseOffload(model, options, kFree, capacity);
        if (!chosen.ok()) {
          EXPECT_TRUE(absl::IsResourceExhausted(chosen.status())) << chosen.status();
          EXPECT_LT(capacity[Tier::kDevice], least);
          continue;
        }
        const TierBytes bytes = BytesWith(model, options, *chosen);
        for (const Tier tier : kTiers) EXPECT_LE(bytes[tier], capacity[tier]) << percent;
        // The host is nearer.
        EXPECT_NE(chosen->optimizer.tier, Tier::kNvme);
      }
    }
  }
}

TEST(Fit, TakesAPartOfTheOptimizerWhereThatIsEnough) {
  const Model model = SmallModel();
  const PlanOptions options;
  TierBytes capacity = BytesWith(model, options, {{Tier::kHost, 0.5}, {}, {}, {}});
  const Freedom optimizer = {true, false, false, false};
  capacity[Tier::kHost] = kUnlimitedTiers[Tier::kHost];
  const Offload chosen = *ChooseOffload(model, options, optimizer, capacity);
  EXPECT_EQ(chosen.optimizer.tier, Tier::kHost);
  EXPECT_LE(chosen.optimizer.fraction, 0.5);
  EXPECT_GT(chosen.optimizer.fraction, 0.25);
}

TEST(Fit, GoesToNvmeWhereTheHostIsTooSmall) {
  const Model model = SmallModel();
  const PlanOptions options;
  const Placement nvme = {Tier::kNvme, 1};
  const TierBytes capacity = BytesWith(model, options, {nvme, {}, {}, {}});
  const Offload chosen = *ChooseOffload(model, options, {true, false, false, false}, capacity);
  EXPECT_EQ(chosen.optimizer.tier, Tier::kNvme);
}

// What only passes through a tier takes little there, however deep the model. Once
// gradients on their way to NVMe took all of the host, since nothing waited for their
// norms; and those of several ranks all of the device, since nothing waited for their
// copies.
TEST(Fit, WhatPassesThroughTakesLittle) {
  const Placement nvme = {Tier::kNvme, 1};
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2}) {
      for (int accumulation : {1, 2}) {
        const auto bytes_with = [&](int64_t layers) {
          const Model model = *MakeGpt2({layers, 4, 64, 32, 256, 0}, DType::kBFloat16);
          PlanOptions options;
          options.stage = stage;
          options.world = world;
          options.accumulation = accumulation;
          options.tile_elements = kTileAlignment;
          options.recompute = true;
          options.offload = {nvme, nvme, nvme, nvme};
          const Plan plan = *BuildPlan(model, options);
          TierBytes bytes = plan.arena_bytes;
          for (const Buffer& buffer : plan.buffers) {  // sums of micro-steps stay there
            if (buffer.category == Category::kPartialSums) bytes[buffer.tier] -= buffer.bytes;
          }
          return bytes;
        };
        const TierBytes shallow = bytes_with(6);
        const TierBytes deep = bytes_with(24);
        for (const Tier tier : {Tier::kDevice, Tier::kHost}) {
          EXPECT_LE(deep[tier], shallow[tier] + shallow[tier] / 2)
              << NameOf(tier) << " stage " << stage << " world " << world << " accumulation "
              << accumulation;
        }
      }
    }
  }
}

TEST(Fit, KeepsWhatIsGiven) {
  const Model model = SmallModel();
  PlanOptions options;
  options.offload.parameters = {Tier::kHost, 0.5};
  const Offload chosen =
      *ChooseOffload(model, options, {true, false, false, false}, kUnlimitedTiers);
  EXPECT_EQ(chosen.parameters, options.offload.parameters);
  EXPECT_EQ(chosen.optimizer, Placement());
}

// What is moved farther, and more of it, takes longer.
TEST(Fit, PricesMoves) {
  const Model model = SmallModel();
  const auto seconds = [&](const Offload& offload) {
    PlanOptions options;
    options.offload = offload;
    return *SecondsOfOffload(model, options);
  };
  const Placement host = {Tier::kHost, 1};
  const Placement half = {Tier::kHost, 0.5};
  const Placement nvme = {Tier::kNvme, 1};
  EXPECT_EQ(seconds({}), 0);
  EXPECT_LT(seconds({half, {}, {}, {}}), seconds({host, {}, {}, {}}));
  EXPECT_LT(seconds({host, {}, {}, {}}), seconds({nvme, {}, {}, {}}));
  EXPECT_LT(seconds({host, {}, {}, {}}), seconds({host, {}, host, {}}));
}

}  // namespace
}  // namespace tessera
