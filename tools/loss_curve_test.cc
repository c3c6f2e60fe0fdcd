#include "tools/loss_curve.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

std::string Drawn(const std::vector<LossPoint>& train, const std::vector<LossPoint>& validation) {
  const std::string path = testing::TempDir() + "/curve.svg";
  const absl::Status status = WriteLossCurve(path, train, validation);
  EXPECT_TRUE(status.ok()) << status;
  std::ifstream stream(path);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

int CountOf(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TicksFor, AreRoundNumbersInsideTheAxis) {
  AxisTicks ticks = TicksFor(0, 500, 8);
  EXPECT_EQ(ticks.first, 0);
  EXPECT_EQ(ticks.distance, 100);
  EXPECT_EQ(ticks.count, 6);
  EXPECT_EQ(ticks.decimals, 0);

  ticks = TicksFor(1.37, 5.58, 7);
  EXPECT_EQ(ticks.first, 2);
  EXPECT_EQ(ticks.distance, 1);
  EXPECT_EQ(ticks.count, 4);

  ticks = TicksFor(1.401, 1.449, 5);
  EXPECT_NEAR(ticks.first, 1.41, 1e-12);
  EXPECT_NEAR(ticks.distance, 0.01, 1e-15);
  EXPECT_EQ(ticks.count, 4);
  EXPECT_EQ(ticks.decimals, 2);
}

TEST(LossCurve, DrawsBothCurvesAndTheirLastValues) {
  const std::string svg = Drawn({{1, 5.5}, {2, 4}, {3, 3.25}}, {{1, 5}, {3, 3.125}});
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(CountOf(svg, "</svg>"), 1);
  EXPECT_EQ(CountOf(svg, "<polyline"), 2);
  EXPECT_EQ(CountOf(svg, "<circle"), 2);
  EXPECT_EQ(CountOf(svg, ">train 3.2500<"), 1);
  EXPECT_EQ(CountOf(svg, ">validation 3.1250<"), 1);
}

TEST(LossCurve, StaysInItsFrameWhateverThePoints) {
  for (const auto& points : std::vector<std::vector<LossPoint>>{
           {}, {{5, 2}}, {{1, 2}, {2, 2}}, {{1, NAN}, {2, INFINITY}}, {{1, 1e30}, {2, -1e30}}}) {
    const std::string svg = Drawn(points, {});
    EXPECT_EQ(CountOf(svg, "nan"), 0) << svg;
    EXPECT_EQ(CountOf(svg, "inf"), 0) << svg;
    EXPECT_EQ(CountOf(svg, "</svg>"), 1);
  }
}

TEST(LossCurve, ThinsLongCurves) {
  std::vector<LossPoint> points;
  points.reserve(100'000);
  for (int i = 0; i < 100'000; ++i) points.push_back({1.0 * i, 5.0 - 1e-5 * i});
  const std::string svg = Drawn(points, {});
  EXPECT_LT(svg.size(), 20'000u);
  EXPECT_EQ(CountOf(svg, ">train 4.0000<"), 1) << "the last point, not a mean";
}

}  // namespace
}  // namespace tessera
