#include "sharding/uses.h"

#include <algorithm>
#include <map>

#include "gtest/gtest.h"
#include "sharding/testing/shape_model.h"

namespace tessera {
namespace {

TEST(Uses, ListsCallsFromTheLast) {
  const Model model = testing::MakeShapeModel(DType::kFloat32, 2);
  const Uses uses(model);
  const int last = static_cast<int>(model.calls.size()) - 1;
  EXPECT_EQ(uses.Of(0, 0), (std::vector<int>{last, 0}));
  EXPECT_EQ(uses.Of(0, 1), (std::vector<int>{0}));
  EXPECT_EQ(uses.Of(2, 0), (std::vector<int>{last - 1, 1}));
  EXPECT_TRUE(uses.IsTied(0, 0));
  EXPECT_FALSE(uses.IsTied(0, 1));
  EXPECT_EQ(uses.UnitsOf(0), (std::vector<int>{0, 1}));
  EXPECT_EQ(uses.FirstCallOf(2), 1);
}

TEST(Uses, CheckNamesWhatIsWrong) {
  const Model good = testing::MakeShapeModel(DType::kFloat32, 1);
  EXPECT_TRUE(Uses::Check(good).ok());

  Model model = good;
  model.calls.clear();
  EXPECT_EQ(Uses::Check(model).message(), "model shapes has no calls; give it at least one");

  model = good;
  model.calls[1].uses.push_back({2, 7});
  EXPECT_EQ(Uses::Check(model).message(),
            "call twice.first uses parameter 7 of unit 2, which model shapes does not declare; "
            "correct the call's uses");
  model.calls[1].uses.back() = {-1, 0};
  EXPECT_FALSE(Uses::Check(model).ok());

  model = good;
  model.calls[1].uses.push_back({2, 0});
  EXPECT_EQ(Uses::Check(model).message(),
            "call twice.first lists parameter weight twice; a call gets each parameter once and "
            "returns its whole gradient");

  const std::string last =
      "call head is the last of model shapes, whose backward finds the loss: let it read its "
      "parameters, and recompute nothing";
  model = good;
  model.calls.back().backward_reads_parameters = false;
  EXPECT_EQ(Uses::Check(model).message(), last);
  model = good;
  model.calls.back().recomputable = true;
  EXPECT_EQ(Uses::Check(model).message(), last);

  model = good;
  model.calls[0].uses.erase(model.calls[0].uses.begin() + 1);
  EXPECT_EQ(Uses::Check(model).message(),
            "parameter one of unit embedding is used by no call, so it has no gradient; use it or "
            "remove it");
}

PlanOptions Options(int accumulation, int prefetch, bool recompute) {
  PlanOptions options;
  options.stage = 3;
  options.world = 2;
  options.accumulation = accumulation;
  options.prefetch = prefetch;
  options.recompute = recompute;
  return options;
}

TEST(GatherSpans, CoverEveryReadWithAtMostTwoGathersPerMicroStep) {
  Model model = testing::MakeShapeModel(DType::kFloat32, 3);
  model.calls[3].backward_reads_parameters = false;  // but it is recomputed
  const Uses uses(model);
  for (int accumulation : {1, 3}) {
    for (bool recompute : {false, true}) {
      const PlanOptions options = Options(accumulation, 1, recompute);
      const std::vector<Position> sequence = SequenceOf(model, options);
      const std::vector<Span> spans =
          GatherSpans(model, uses, sequence, options, std::vector<bool>(model.units.size(), true));
      std::map<int, int> gathers;
      for (const Span& span : spans) ++gathers[span.unit];
      for (const auto& [unit, count] : gathers) EXPECT_LE(count, 2 * accumulation) << unit;
      for (size_t p = 0; p < sequence.size(); ++p) {
        const Call& call = model.calls[sequence[p].call];
        if (sequence[p].backward && !call.backward_reads_parameters &&
            !(recompute && call.recomputable)) {
          continue;
        }
        for (int unit : uses.UnitsOf(sequence[p].call)) {
          const int at = static_cast<int>(p);
          const auto covers = [&](const Span& span) {
            return span.unit == unit && span.first <= at && at <= span.last;
          };
          EXPECT_EQ(std::count_if(spans.begin(), spans.end(), covers), 1) << "position " << p;
        }
      }
    }
  }
}

// A unit that the next position uses too stays; there is no release and gather
// between.
TEST(GatherSpans, AreNeverAdjacent) {
  const Model model = testing::MakeShapeModel(DType::kFloat32, 2);
  const Uses uses(model);
  const PlanOptions options = Options(3, 1, false);
  const std::vector<Span> spans = GatherSpans(model, uses, SequenceOf(model, options), options,
                                              std::vector<bool>(model.units.size(), true));
  for (const Span& a : spans) {
    for (const Span& b : spans) {
      if (a.unit != b.unit) continue;
      EXPECT_NE(a.last + 1, b.first) << "unit " << a.unit;
    }
  }
}

TEST(GatherSpans, AreIssuedAsFarAheadAsAsked) {
  const Model model = testing::MakeShapeModel(DType::kFloat32, 3);
  const Uses uses(model);
  for (int prefetch : {0, 1, 3}) {
    const PlanOptions options = Options(2, prefetch, false);
    const std::vector<Span> spans = GatherSpans(model, uses, SequenceOf(model, options), options,
                                                std::vector<bool>(model.units.size(), true));
    std::vector<int> places;
    for (const Span& span : spans) {
      if (places.empty() || places.back() != span.first) places.push_back(span.first);
      const int place = static_cast<int>(places.size()) - 1;
      EXPECT_EQ(span.issue, places[std::max(place - prefetch, 0)]);
    }
  }
}

}  // namespace
}  // namespace tessera
