#include "sharding/price.h"

#include <sys/resource.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "models/gpt2.h"
#include "sharding/build.h"
#include "sharding/testing/shape_model.h"
#include "sharding/verify.h"

namespace tessera {
namespace {

// Padded elements of all units.
int64_t ElementsOf(const Plan& plan) {
  int64_t elements = 0;
  for (const UnitPartition& partition : plan.partitions) elements += partition.padded;
  return elements;
}

// The design's table of bytes sent, with P padded elements: an upper bound.
int64_t TableBytes(const Plan& plan, DType dtype) {
  const PlanOptions& o = plan.options;
  const int64_t element = SizeOf(dtype);
  // Partial sums of several micro-steps travel in fp32; the finished ones as they are.
  const int64_t reduced = o.accumulation > 1 ? 4 : element;
  const int64_t sent = ElementsOf(plan) / o.world * (o.world - 1);
  switch (o.stage) {
    case 0:
    case 1:
      return (reduced + element) * sent;
    case 2:
      return (o.accumulation + 1) * element * sent;
    default:
      return 3 * o.accumulation * element * sent;
  }
}

std::vector<PlanOptions> Matrix() {
  std::vector<PlanOptions> matrix;
  PlanOptions o;
  for (o.stage = 0; o.stage <= 3; ++o.stage) {
    for (int world : {1, 2, 3, 8}) {
      for (int accumulation : {1, 2, 4}) {
        for (int64_t bucket : {5000, 1 << 25}) {
          o.world = world;
          o.accumulation = accumulation;
          o.bucket_bytes = bucket;
          matrix.push_back(o);
        }
      }
    }
  }
  return matrix;
}

// A chain in which every call uses a unit of its own and reads it in the backward.
Model MakePlainChain(DType dtype) {
  Model model;
  model.name = "plain";
  model.dtype = dtype;
  model.fields = {{"x", DType::kInt32, {3}}};
  const std::vector<int64_t> sizes = {700, 5000, 1, 9001, 2500};
  for (size_t u = 0; u < sizes.size(); ++u) {
    ParameterSpec parameter;
    parameter.name = "weight";
    parameter.shape = {sizes[u]};
    model.units.push_back({absl::StrCat("unit.", u), {parameter}});
    Footprint footprint;
    if (u + 1 < sizes.size()) footprint.output = {"output", dtype, {0, 16}};
    Call& call = model.calls.emplace_back();
    call.name = absl::StrCat("call.", u);
    call.uses = {{static_cast<int>(u), 0}};
    call.module = std::make_shared<testing::ShapeModule>(footprint);
  }
  return model;
}

TEST(Price, TrafficIsThatOfTheTableWhereNothingIsSaved) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Model& model : {MakePlainChain(dtype), testing::MakeShapeModel(dtype, 2)}) {
      for (const PlanOptions& options : Matrix()) {
        const Plan plan = *BuildPlan(model, options);
        const int64_t sent = PriceOf(plan).bytes_sent;
        if (options.stage < 3 || options.world == 1) {
          EXPECT_EQ(sent, options.world == 1 ? 0 : TableBytes(plan, dtype)) << model.name;
        } else {
          // Here the turn from forward to backward always saves a gather.
          EXPECT_LT(sent, TableBytes(plan, dtype)) << model.name;
          EXPECT_GT(sent, 0) << model.name;
        }
      }
    }
  }
}

// At stage 3 the last unit stays gathered over the turn in every micro-step, and the
// first from one micro-step to the next; all else is the table's.
TEST(Price, StageThreeSavesExactlyTheTurns) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Model model = MakePlainChain(dtype);
    for (const PlanOptions& options : Matrix()) {
      if (options.stage < 3 || options.world == 1) continue;
      const Plan plan = *BuildPlan(model, options);
      const int64_t saved = options.accumulation * plan.partitions.back().shard +
                            (options.accumulation - 1) * plan.partitions.front().shard;
      EXPECT_EQ(PriceOf(plan).bytes_sent,
                TableBytes(plan, dtype) - saved * SizeOf(dtype) * (options.world - 1));
    }
  }
}

int64_t MemoryOf(const Price& price, Category category) {
  return price.memory[static_cast<int>(category)][Tier::kDevice];
}

int64_t ModelState(const Price& price) {
  return MemoryOf(price, Category::kParameters) + MemoryOf(price, Category::kGradients) +
         MemoryOf(price, Category::kOptimizer);
}

constexpr int kWorlds[] = {1, 4, 16, 64, 256, 1024};

PlanOptions Options(int stage, int world) {
  PlanOptions options;
  options.stage = stage;
  options.world = world;
  options.bucket_bytes = int64_t{1} << 42;
  return options;
}

// Of mixed precision with Adam a parameter takes 2 bytes, its gradient 2, and its
// optimizer state 12; a stage divides the last, the last two or all by the ranks.
TEST(Price, ModelStateIsTheFormula) {
  struct Size {
    double parameters;
    Gpt2Config config;
  };
  const std::vector<Size> sizes = {
      {7.5e9, {36, 32, 4096, 1024, 50257, 0}},
      {128e9, {40, 128, 16384, 1024, 50257, 0}},
      {1e12, {128, 160, 25600, 1024, 50257, 0}},
  };
  for (const Size& size : sizes) {
    const Model model = *MakeGpt2(size.config, DType::kBFloat16);
    for (int world : kWorlds) {
      for (int stage = 0; stage <= 3; ++stage) {
        const Plan plan = *BuildPlan(model, Options(stage, world));
        const int64_t all = ElementsOf(plan);
        const int64_t part = all / world;
        EXPECT_NEAR(static_cast<double>(all), size.parameters, 0.02 * size.parameters);
        const Price price = PriceOf(plan);
        EXPECT_EQ(MemoryOf(price, Category::kParameters), 2 * (stage >= 3 ? part : all));
        EXPECT_EQ(MemoryOf(price, Category::kGradients), 2 * (stage >= 2 ? part : all));
        EXPECT_EQ(MemoryOf(price, Category::kOptimizer), 12 * (stage >= 1 ? part : all));
        EXPECT_EQ(MemoryOf(price, Category::kPartialSums), 0);
      }
    }
  }
}

// Nothing is more than the arena that it is in, whatever lives elsewhere.
TEST(Price, NoCategoryIsMoreThanTheArena) {
  const Model model = testing::MakeShapeModel(DType::kBFloat16, 6);
  for (Tier tier : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
    for (int stage = 0; stage <= 3; ++stage) {
      PlanOptions options;
      options.stage = stage;
      options.world = 2;
      options.tile_elements = kTileAlignment;
      const Placement all = {tier, 1};
      options.offload = {all, all, all, all};
      const Price price = PriceOf(*BuildPlan(model, options));
      for (int c = 0; c < kCategories; ++c) {
        for (Tier in : kTiers) EXPECT_LE(price.memory[c][in], price.peak[in]) << stage;
      }
    }
  }
}

Model MakeOneUnit(int64_t elements) {
  Model model;
  model.name = "one unit";
  model.dtype = DType::kBFloat16;
  model.fields = {{"x", DType::kInt32, {1}}};
  ParameterSpec parameter;
  parameter.name = "weight";
  parameter.shape = {elements};
  model.units.push_back({"unit", {parameter}});
  Call& call = model.calls.emplace_back();
  call.name = "call";
  call.uses = {{0, 0}};
  call.module = std::make_shared<testing::ShapeModule>(Footprint());
  return model;
}

// Gigabytes per rank at stages 1, 2 and 3 for 7.5B, 128B and 1T parameters, as
// Rajbhandari et al. print them ("ZeRO: Memory Optimizations Toward Training
// Trillion Parameter Models", table 1). Some are rounded there and some cut off, so
// a figure may differ by one in its last digit.
TEST(Price, ModelStateIsThePublishedTable) {
  constexpr int64_t kParameters[] = {7'500'000'000, 128'000'000'000, 1'000'000'000'000};
  constexpr const char* kPrinted[6][3][3] = {
      {{"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}},
      {{"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}},
      {{"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}},
      {{"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}},
      {{"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}},
      {{"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}},
  };
  for (int w = 0; w < 6; ++w) {
    for (int p = 0; p < 3; ++p) {
      const Model model = MakeOneUnit(kParameters[p]);
      for (int stage = 1; stage <= 3; ++stage) {
        PlanOptions options = Options(stage, kWorlds[w]);
        options.bucket_bytes = int64_t{1} << 45;  // or there would be many pieces
        const Price price = PriceOf(*BuildPlan(model, options));
        const std::string printed = kPrinted[w][p][stage - 1];
        const size_t point = printed.find('.');
        double unit = 1;
        if (point != std::string::npos) {
          for (size_t digit = point + 1; digit < printed.size(); ++digit) unit /= 10;
        }
        EXPECT_NEAR(static_cast<double>(ModelState(price)) / 1e9, std::atof(printed.c_str()), unit)
            << kParameters[p] << " parameters, world " << kWorlds[w] << ", stage " << stage;
      }
    }
  }
}

// The plan of a model that nobody could hold is made here; how fast, `tessera bench
// plan` says.
TEST(Price, LargeModelIsPlannedInLittleMemory) {
  const Model model = *MakeGpt2({96, 96, 12288, 2048, 50257, 0}, DType::kBFloat16);
  PlanOptions options;
  options.stage = 3;
  options.world = 1024;
  for (int accumulation : {1, 4}) {
    for (bool recompute : {false, true}) {
      options.accumulation = accumulation;
      options.recompute = recompute;
      const Plan plan = *BuildPlan(model, options);
      const absl::Status status = Verify(plan, model, kUnlimitedTiers);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_NEAR(static_cast<double>(ElementsOf(plan)), 175e9, 1e9);
      rusage usage = {};
      getrusage(RUSAGE_SELF, &usage);
      if (!kSanitized) {
        EXPECT_LT(usage.ru_maxrss, 1 << 20);  // KiB
      }
    }
  }
}

}  // namespace
}  // namespace tessera
