#include "tools/bench/gpu_bench.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

TEST(GpuBenchTest, MeasuresEveryPart) {
  GpuBenchSizes sizes;
  sizes.rounds = 2;
  sizes.uncounted = 1;
  sizes.repeats = 2;
  sizes.product = 64;
  sizes.copy_bytes = 1 << 16;
  sizes.rows = 64;
  sizes.width = 48;
  sizes.parameters = 4096;
  sizes.pieces = 3;
  sizes.loss_rows = 16;
  sizes.vocabulary = 257;
  sizes.batch = 1;
  sizes.heads = 2;
  sizes.context = 128;
  const Gpt2Config model = {1, 2, 32, 16, 64};
  Gpt2Config large = model;
  large.width = 1 << 16;
  sizes.steps = {{"small", model, {2, 1}, 0.5}, {"too large", large, {4}, 0.5}};
  GpuReport report;
  const absl::Status status = BenchGpu(sizes, report);
  ASSERT_TRUE(status.ok()) << status;

  std::vector<std::string> names;
  for (const GpuFigure& figure : report.figures()) {
    EXPECT_GE(figure.value.most, figure.value.median) << figure.name;
    EXPECT_GE(figure.value.median, figure.value.least) << figure.name;
    EXPECT_GE(figure.value.least, 0) << figure.name;
    if (!figure.against.empty()) {
      EXPECT_GT(figure.ratio(), 0) << figure.name;
    }
    if (figure.against != "the data sheet's rate") names.push_back(figure.name);
  }
  EXPECT_THAT(names, ElementsAre("copy", "layernorm_forward", "layernorm_backward", "gelu_forward",
                                 "gelu_backward", "adamw", "ordered_sum", "softmax_cross_entropy",
                                 "product", "attention_forward", "attention_backward",
                                 "small tokens", "small step", "small idle"));

  const nlohmann::json json = report.ToJson();
  EXPECT_TRUE(json["device"].is_string());
  EXPECT_EQ(json["figures"].size(), report.figures().size());
  EXPECT_EQ(json["goals"], 11);
  EXPECT_EQ(json["figures"][1]["against"], "copy");
  EXPECT_EQ(json["figures"][1]["goal"], 0.85);
  report.PrintSummary();
}

}  // namespace
}  // namespace tessera
