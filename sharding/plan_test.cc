#include "sharding/plan.h"

#include <algorithm>
#include <map>

#include "gtest/gtest.h"
#include "sharding/build.h"
#include "sharding/testing/shape_model.h"
#include "sharding/verify.h"

namespace tessera {
namespace {

constexpr int64_t kEnough = int64_t{1} << 40;

std::vector<PlanOptions> Matrix() {
  std::vector<PlanOptions> matrix;
  PlanOptions o;
  o.micro_sequences = 3;
  for (o.stage = 0; o.stage <= 3; ++o.stage) {
    for (int world : {1, 2, 3, 5, 8}) {
      for (int accumulation : {1, 2, 3, 4}) {
        for (int group : {1, 2, 4}) {
          for (int prefetch : {0, 1, 3}) {
            for (int64_t bucket : {1, 20000, 1 << 25}) {
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

// The most bytes alive at once, found by walking the compute lane's points; by
// its own reading of the plan's lifetimes.
int64_t MostAlive(const Plan& plan) {
  std::map<int, int64_t> change;
  int64_t persistent = 0;
  const std::vector<Lifetime> lifetimes = LifetimesOf(plan);
  for (size_t b = 0; b < plan.buffers.size(); ++b) {
    const int64_t bytes = (plan.buffers[b].bytes + 63) / 64 * 64;
    if (plan.buffers[b].persistent) {
      persistent += bytes;
    } else if (lifetimes[b].begin < lifetimes[b].end) {
      change[lifetimes[b].begin] += bytes;
      change[lifetimes[b].end] -= bytes;
    }
  }
  int64_t alive = 0, most = 0;
  for (const auto& [point, delta] : change) most = std::max(most, alive += delta);
  return persistent + most;
}

TEST(Plan, EveryCaseIsSafe) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = testing::MakeShapeModel(dtype, 3);
    for (const PlanOptions& options : Matrix()) {
      const absl::StatusOr<Plan> plan = BuildPlan(model, options);
      ASSERT_TRUE(plan.ok()) << plan.status();
      const absl::Status status = Verify(*plan, model, kEnough);
      ASSERT_TRUE(status.ok()) << status << "\n" << Print(*plan, model);
    }
  }
}

TEST(Plan, PlacementIsTight) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = testing::MakeShapeModel(dtype, 3);
    double worst = 0;
    for (const PlanOptions& options : Matrix()) {
      const Plan plan = *BuildPlan(model, options);
      worst = std::max(worst, static_cast<double>(plan.arena_bytes) / MostAlive(plan));
    }
    EXPECT_LE(worst, 1.02);
    RecordProperty("worst", std::to_string(worst));
  }
}

TEST(Plan, EvaluationIsSafeAndSharesTheState) {
  const Model model = testing::MakeShapeModel(DType::kBFloat16, 3);
  for (PlanOptions options : Matrix()) {
    const Plan train = *BuildPlan(model, options);
    options.kind = PlanOptions::Kind::kEvaluate;
    options.accumulation = 1;
    const absl::StatusOr<Plan> plan = BuildPlan(model, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::Status status = Verify(*plan, model, kEnough);
    ASSERT_TRUE(status.ok()) << status << "\n" << Print(*plan, model);
    for (size_t b = 0; b < plan->buffers.size() && plan->buffers[b].persistent; ++b) {
      EXPECT_EQ(plan->buffers[b].name, train.buffers[b].name);
      EXPECT_EQ(plan->buffers[b].offset, train.buffers[b].offset);
    }
  }
}

// A recomputation reads the parameters, even where the backward itself does not.
TEST(Plan, RecomputationGathersParameters) {
  Model model = testing::MakeShapeModel(DType::kBFloat16, 2);
  for (Call& call : model.calls) call.backward_reads_parameters = false;
  PlanOptions options;
  options.world = 2;
  options.stage = 3;
  options.recompute = true;
  const absl::StatusOr<Plan> plan = BuildPlan(model, options);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(Verify(*plan, model, kEnough), absl::OkStatus());
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
