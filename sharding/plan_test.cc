#include "sharding/plan.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "sharding/build.h"
#include "sharding/testing/brute_force.h"
#include "sharding/testing/shape_model.h"
#include "sharding/verify.h"

namespace tessera {
namespace {

constexpr int kSparser = kSanitized ? 20 : 1;  // every so many cases

// Leaves out what makes the same plan as another case.
std::vector<PlanOptions> Matrix() {
  std::vector<PlanOptions> matrix;
  int number = 0;
  PlanOptions o;
  o.micro_sequences = 3;
  for (o.stage = 0; o.stage <= 3; ++o.stage) {
    for (int world : {1, 2, 3, 5, 8}) {
      for (int accumulation : {1, 2, 3, 4}) {
        for (int group : {1, 2, 4}) {
          for (int prefetch : {0, 1, 3}) {
            for (int64_t bucket : {1, 20000, 1 << 25}) {
              if (prefetch != 1 && o.stage < 3) continue;
              if (bucket != 1 && world == 1) continue;
              if (group != 1 && (world == 1 || o.stage < 2) && accumulation == 1) continue;
              if (number++ % kSparser != 0) continue;
              o.world = world;
              o.accumulation = accumulation;
              o.sum_group = group;
              o.prefetch = prefetch;
              o.bucket_bytes = bucket;
              o.recompute = (world + accumulation + group + prefetch) % 2 == 1;
              matrix.push_back(o);
            }
          }
        }
      }
    }
  }
  return matrix;
}

void ExpectSafe(const Model& model, const PlanOptions& options) {
  const absl::StatusOr<Plan> plan = BuildPlan(model, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status status = Verify(*plan, model, kUnlimitedTiers);
  ASSERT_TRUE(status.ok()) << status << "\n" << Print(*plan, model);
}

void ExpectTight(const Model& model, const PlanOptions& options) {
  const Plan plan = *BuildPlan(model, options);
  for (const Tier tier : kTiers) {
    const double alive = static_cast<double>(testing::MostAliveByClosure(plan, tier));
    const int64_t slack = tier == Tier::kHost ? 4096 : 0;
    EXPECT_LE(static_cast<double>(plan.arena_bytes[tier] - slack), 1.02 * alive)
        << NameOf(tier) << " stage " << options.stage << " world " << options.world
        << " accumulation " << options.accumulation << " group " << options.sum_group
        << " prefetch " << options.prefetch << " bucket " << options.bucket_bytes;
  }
}

TEST(Plan, EveryCaseIsSafe) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = testing::MakeShapeModel(dtype, 3);
    for (const PlanOptions& options : Matrix()) ExpectSafe(model, options);
  }
}

constexpr Tier kTiersOff[] = {Tier::kHost, Tier::kNvme};

// What is where, and in which fractions; the first is nothing.
std::vector<Offload> Offloads() {
  std::vector<Offload> offloads = {{}};
  for (Tier tier : kTiersOff) {
    for (double fraction : {0.0, 0.3, 1.0}) {
      const Placement some = {tier, fraction};
      offloads.push_back({some, {}, {}, {}});
      offloads.push_back({{}, some, {}, {}});
      offloads.push_back({{}, {}, some, {}});
      offloads.push_back({{}, {}, {}, some});
      offloads.push_back({some, some, {}, {}});
      offloads.push_back({some, {}, some, some});
      offloads.push_back({some, some, some, some});
    }
  }
  for (Tier optimizer : kTiers) {
    for (Tier gradients : kTiers) {
      for (Tier parameters : kTiers) {
        offloads.push_back({{optimizer, 0.5}, {gradients, 0.7}, {parameters, 0.6}, {}});
      }
    }
  }
  return offloads;
}

std::string NameOf(const Offload& offload) {
  std::string name;
  ForEachPlacement(offload, [&](absl::string_view, const Placement& placement) {
    absl::StrAppend(&name, NameOf(placement.tier), " ", placement.fraction, " ");
  });
  return name;
}

// TESSERA_LONG=1 takes all of it.
std::vector<PlanOptions> OffloadMatrix() {
  const bool is_long = std::getenv("TESSERA_LONG") != nullptr;
  std::vector<PlanOptions> matrix;
  int number = 0;
  PlanOptions o;
  o.tile_elements = kTileAlignment;
  o.bucket_bytes = 20000;
  for (const Offload& offload : Offloads()) {
    for (o.stage = 0; o.stage <= 3; ++o.stage) {
      for (int world : {1, 2, 3}) {
        for (int accumulation : {1, 3, 4}) {
          if (number++ % (is_long ? 1 : 13 * kSparser) != 0) continue;
          o.world = world;
          o.accumulation = accumulation;
          o.prefetch = number % 3;
          o.recompute = number % 2 == 1;
          o.offload = offload;
          matrix.push_back(o);
        }
      }
    }
  }
  return matrix;
}

// Where things live changes no value: the same leaves are added in the same order, and
// every update finds what it would have found.
TEST(Plan, OffloadGivesTheSame) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = testing::MakeShapeModel(dtype, 2);
    for (PlanOptions options : OffloadMatrix()) {
      SCOPED_TRACE(absl::StrCat(NameOf(options.offload), "stage ", options.stage, " world ",
                                options.world, " accumulation ", options.accumulation));
      ExpectSafe(model, options);
      if (HasFatalFailure()) return;
      const Plan plan = *BuildPlan(model, options);
      ASSERT_EQ(testing::FindConflict(plan), "");
      options.offload = {};
      const Plan plain = *BuildPlan(model, options);
      ASSERT_TRUE(testing::RunOnHashes(plan, dtype) == testing::RunOnHashes(plain, dtype));
    }
  }
}

TEST(Plan, OffloadIsPlacedTightly) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = testing::MakeShapeModel(dtype, 3);
    for (const PlanOptions& options : OffloadMatrix()) {
      SCOPED_TRACE(NameOf(options.offload));
      ExpectTight(model, options);
    }
  }
}

TEST(Plan, PlacementIsTight) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = testing::MakeShapeModel(dtype, 3);
    for (const PlanOptions& options : Matrix()) ExpectTight(model, options);
  }
}

// Chains of any units and sizes, with parameters that are used anywhere and by as
// many calls as the lot has it.
class Chance {
 public:
  explicit Chance(uint32_t seed) : lot_(seed) {}

  // In [0, below).
  int64_t Below(int64_t below) { return static_cast<int64_t>(lot_() % below); }

  Model MakeModel() {
    Model model;
    model.name = "chance";
    model.dtype = Below(2) == 0 ? DType::kFloat32 : DType::kBFloat16;
    model.fields = {{"x", DType::kInt32, {1 + Below(9)}}};
    const int calls = static_cast<int>(1 + Below(7));
    for (int c = 0; c < calls; ++c) model.calls.push_back(MakeCall(c, c + 1 == calls, model.dtype));
    const int64_t units = 1 + Below(6);
    for (int u = 0; u < units; ++u) {
      UnitSpec& unit = model.units.emplace_back();
      unit.name = absl::StrCat("unit.", u);
      const int64_t parameters = Below(4);
      for (int p = 0; p < parameters; ++p) {
        ParameterSpec& parameter = unit.parameters.emplace_back();
        parameter.name = absl::StrCat("parameter.", p);
        parameter.shape = {Below(4) == 0 ? Below(20) : Below(9000)};
        // At least one call, each at most once.
        const int64_t uses = Below(4) == 0 ? 1 + Below(calls) : 1;
        const int64_t first = Below(calls);
        for (int64_t use = 0; use < uses; ++use) {
          model.calls[(first + use) % calls].uses.push_back({u, p});
        }
      }
    }
    return model;
  }

  static int64_t Elements(const Model& model) {
    int64_t elements = 0;
    for (const UnitSpec& unit : model.units) {
      for (const ParameterSpec& parameter : unit.parameters) {
        elements += ElementsOf(parameter.shape);
      }
    }
    return elements;
  }

  PlanOptions MakeOptions() {
    PlanOptions o;
    o.world = static_cast<int>(1 + Below(6));
    o.stage = static_cast<int>(Below(4));
    o.micro_sequences = 1 + Below(4);
    o.accumulation = static_cast<int>(1 + Below(5));
    o.sum_group = 1 + Below(4);
    o.prefetch = static_cast<int>(Below(5));
    o.bucket_bytes = Below(2) == 0 ? 1 + Below(40000) : int64_t{1} << 25;
    o.recompute = Below(2) == 0;
    return o;
  }

 private:
  Call MakeCall(int number, bool last, DType dtype) {
    Footprint footprint;
    if (!last) footprint.output = {"output", dtype, {0, 1 + Below(3000)}};
    const int64_t saved = last ? 0 : Below(3);
    for (int64_t s = 0; s < saved; ++s) {
      footprint.saved.push_back({absl::StrCat("saved.", s), dtype, {Below(6000)}});
    }
    footprint.forward_workspace = Below(2) * Below(9000);
    footprint.backward_workspace = Below(2) * Below(9000);
    Call call;
    call.name = absl::StrCat("call.", number);
    call.module = std::make_shared<testing::ShapeModule>(std::move(footprint));
    call.backward_reads_parameters = last || Below(4) != 0;
    call.recomputable = !last && Below(2) == 0;
    return call;
  }

  std::minstd_rand lot_;
};

TEST(Plan, ChainsByChanceAreSafeAndTight) {
  for (uint32_t seed = 1; seed <= 300 / kSparser; ++seed) {
    SCOPED_TRACE(seed);
    Chance chance(seed);
    const Model model = chance.MakeModel();
    const PlanOptions options = chance.MakeOptions();
    if (!BuildPlan(model, options).ok()) {
      EXPECT_EQ(Chance::Elements(model), 0);
      continue;
    }
    ExpectSafe(model, options);
    ExpectTight(model, options);
    if (HasFailure()) break;
  }
}

TEST(Plan, EvaluationIsSafeAndSharesTheState) {
  const Model model = testing::MakeShapeModel(DType::kBFloat16, 3);
  for (PlanOptions options : Matrix()) {
    if (options.accumulation != 1 || options.sum_group != 1) continue;
    const Plan train = *BuildPlan(model, options);
    options.kind = PlanOptions::Kind::kEvaluate;
    const absl::StatusOr<Plan> plan = BuildPlan(model, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::Status status = Verify(*plan, model, kUnlimitedTiers);
    ASSERT_TRUE(status.ok()) << status << "\n" << Print(*plan, model);
    for (size_t b = 0; b < plan->buffers.size() && plan->buffers[b].persistent; ++b) {
      EXPECT_EQ(plan->buffers[b].name, train.buffers[b].name);
      EXPECT_EQ(plan->buffers[b].offset, train.buffers[b].offset);
    }
  }
}

// Micro-batches, world and sum groups being the same, so are the sums: the hashes of
// the brute force tell the smallest difference.
TEST(Plan, StagesComputeTheSame) {
  const Model model = testing::MakeShapeModel(DType::kBFloat16, 1);
  PlanOptions options;
  options.world = 2;
  options.accumulation = 2;
  options.bucket_bytes = 4096;
  std::vector<uint64_t> norms;
  for (options.stage = 0; options.stage <= 3; ++options.stage) {
    // What each rank reports comes first: norm and losses.
    norms.push_back(testing::RunOnHashes(*BuildPlan(model, options), model.dtype).front());
  }
  EXPECT_EQ(norms, std::vector<uint64_t>(4, norms[0]));
  options.stage = 2;
  options.sum_group = 4;
  EXPECT_NE(testing::RunOnHashes(*BuildPlan(model, options), model.dtype).front(), norms[0]);
}

TEST(Plan, RefusesAModelWithNothingToTrain) {
  Model model;
  model.name = "hollow";
  ParameterSpec parameter;
  parameter.name = "nothing";
  parameter.shape = {0, 4};
  model.units.push_back({"unit", {parameter}});
  Call& call = model.calls.emplace_back();
  call.uses = {{0, 0}};
  call.module = std::make_shared<testing::ShapeModule>(Footprint());
  EXPECT_EQ(BuildPlan(model, PlanOptions()).status().message(),
            "model hollow has no parameter elements; give it something to train");
}

TEST(Plan, RefusesALastCallThatSaves) {
  Model model = testing::MakeShapeModel(DType::kFloat32, 1);
  Footprint footprint;
  footprint.saved = {{"a", DType::kFloat32, {1}}};
  model.calls.back().module = std::make_shared<testing::ShapeModule>(footprint);
  EXPECT_EQ(BuildPlan(model, {}).status().message(),
            "call head is the last of model shapes, which runs backward alone; let it save "
            "nothing");
}

TEST(Plan, PromiseIsWithdrawnWhereThePageSaysSo) {
  PlanOptions o;
  o.world = 2;
  o.accumulation = 3;
  EXPECT_FALSE(SumOrderIsCanonical(o));
  o.sum_group = 3;
  EXPECT_TRUE(SumOrderIsCanonical(o));
  o.accumulation = 6;
  EXPECT_TRUE(SumOrderIsCanonical(o));
  o.accumulation = 9;
  EXPECT_FALSE(SumOrderIsCanonical(o));
  o.stage = 2;
  EXPECT_TRUE(SumOrderIsCanonical(o));
}

}  // namespace
}  // namespace tessera
