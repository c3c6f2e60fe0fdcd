#include "tools/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "core/atomic_file.h"

namespace tessera {
namespace {

// The picture and the plot's frame in it, in pixels.
constexpr double kWidth = 800, kHeight = 480;
constexpr double kLeft = 64, kRight = 776, kTop = 44, kBottom = 424;
constexpr absl::string_view kTrainColor = "#4c78a8";
constexpr absl::string_view kValidationColor = "#e45756";

// A linear map of values to pixels.
struct Axis {
  double low, high;
  double from, to;
  double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

std::vector<LossPoint> Finite(absl::Span<const LossPoint> points) {
  std::vector<LossPoint> finite;
  for (const LossPoint& point : points) {
    if (std::isfinite(point.loss)) finite.push_back(point);
  }
  return finite;
}

// At most `limit` points, each the mean of as many neighbours.
std::vector<LossPoint> Thinned(const std::vector<LossPoint>& points, size_t limit) {
  const size_t group = (points.size() + limit - 1) / limit;
  if (group <= 1) return points;
  std::vector<LossPoint> thinned;
  for (size_t start = 0; start < points.size(); start += group) {
    const size_t end = std::min(start + group, points.size());
    LossPoint mean;
    for (size_t i = start; i < end; ++i) {
      mean.step += points[i].step / static_cast<double>(end - start);
      mean.loss += points[i].loss / static_cast<double>(end - start);
    }
    thinned.push_back(mean);
  }
  return thinned;
}

std::string Text(double x, double y, absl::string_view anchor, absl::string_view text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                         text);
}

std::string Line(double x1, double y1, double x2, double y2, absl::string_view color,
                 double width) {
  return absl::StrFormat(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
      "stroke-width=\"%.1f\"/>\n",
      x1, y1, x2, y2, color, width);
}

std::string Frame(const Axis& x, const Axis& y) {
  std::string svg;
  const AxisTicks steps = TicksFor(x.low, x.high, 8);
  for (int i = 0; i < steps.count; ++i) {
    const double value = steps.first + i * steps.distance;
    absl::StrAppend(
        &svg, Line(x(value), kTop, x(value), kBottom, "#eeeeee", 1),
        Text(x(value), kBottom + 18, "middle", absl::StrFormat("%.*f", steps.decimals, value)));
  }
  const AxisTicks losses = TicksFor(y.low, y.high, 10);
  for (int i = 0; i < losses.count; ++i) {
    const double value = losses.first + i * losses.distance;
    absl::StrAppend(
        &svg, Line(kLeft, y(value), kRight, y(value), "#eeeeee", 1),
        Text(kLeft - 8, y(value) + 4, "end", absl::StrFormat("%.*f", losses.decimals, value)));
  }
  absl::StrAppend(&svg, Line(kLeft, kBottom, kRight, kBottom, "#333333", 1),
                  Line(kLeft, kTop, kLeft, kBottom, "#333333", 1),
                  Text((kLeft + kRight) / 2, kBottom + 42, "middle", "step"),
                  Text(kLeft, kTop - 14, "middle", "loss"));
  return svg;
}

std::string Curve(const std::vector<LossPoint>& points, const Axis& x, const Axis& y,
                  absl::string_view color, double width) {
  if (points.empty()) return "";
  std::string svg = absl::StrFormat(
      "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-linejoin=\"round\" "
      "points=\"",
      color, width);
  for (const LossPoint& point : points) {
    absl::StrAppend(&svg, absl::StrFormat("%.1f,%.1f ", x(point.step), y(point.loss)));
  }
  return absl::StrCat(svg, "\"/>\n");
}

std::string Dots(const std::vector<LossPoint>& points, const Axis& x, const Axis& y,
                 absl::string_view color) {
  std::string svg;
  for (const LossPoint& point : points) {
    absl::StrAppend(&svg, absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                                          x(point.step), y(point.loss), color));
  }
  return svg;
}

// A row of the legend; the last value says where the curve ended.
std::string Legend(absl::string_view name, const std::vector<LossPoint>& points,
                   absl::string_view color, double y) {
  if (points.empty()) return "";
  return absl::StrCat(
      Line(kRight - 170, y - 4, kRight - 146, y - 4, color, 3),
      Text(kRight - 138, y, "start", absl::StrFormat("%s %.4f", name, points.back().loss)));
}

}  // namespace

AxisTicks TicksFor(double low, double high, int count) {
  const double rough = (high - low) / count;
  const int exponent = static_cast<int>(std::floor(std::log10(rough)));
  const double power = std::pow(10, exponent);
  double distance = 10 * power;
  for (const double multiple : {1.0, 2.0, 5.0}) {
    if (multiple * power >= rough * (1 - 1e-9)) {
      distance = multiple * power;
      break;
    }
  }
  AxisTicks ticks;
  ticks.distance = distance;
  ticks.first = std::ceil(low / distance - 1e-9) * distance;
  ticks.count = static_cast<int>(std::floor((high - ticks.first) / distance + 1e-9)) + 1;
  ticks.decimals = std::max(0, -static_cast<int>(std::floor(std::log10(distance) + 1e-9)));
  return ticks;
}

absl::Status WriteLossCurve(const std::string& path, absl::Span<const LossPoint> train,
                            absl::Span<const LossPoint> validation) {
  const std::vector<LossPoint> finite_train = Finite(train);
  const std::vector<LossPoint> finite_validation = Finite(validation);
  const std::vector<LossPoint> train_points = Thinned(finite_train, 700);
  const std::vector<LossPoint> validation_points = Thinned(finite_validation, 200);
  std::vector<LossPoint> all = train_points;
  all.insert(all.end(), validation_points.begin(), validation_points.end());
  if (all.empty()) all.push_back({});
  const auto by_step = [](const LossPoint& a, const LossPoint& b) { return a.step < b.step; };
  const auto by_loss = [](const LossPoint& a, const LossPoint& b) { return a.loss < b.loss; };
  const auto [first, last] = std::minmax_element(all.begin(), all.end(), by_step);
  const auto [lowest, highest] = std::minmax_element(all.begin(), all.end(), by_loss);
  // Room around the curves, also where all their points are the same.
  const double room = std::max(0.05 * (highest->loss - lowest->loss), 1e-3);
  const Axis x = {first->step, std::max(last->step, first->step + 1), kLeft, kRight};
  const Axis y = {lowest->loss - room, highest->loss + room, kBottom, kTop};
  return WriteFileAtomically(
      path,
      absl::StrCat(
          absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                          "width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
                          "font-size=\"13\" fill=\"#333333\">\n"
                          "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                          kWidth, kHeight, kWidth, kHeight),
          Frame(x, y), Curve(train_points, x, y, kTrainColor, 1.5),
          Curve(validation_points, x, y, kValidationColor, 2),
          Dots(validation_points, x, y, kValidationColor),
          Legend("train", finite_train, kTrainColor, kTop + 20),
          Legend("validation", finite_validation, kValidationColor, kTop + 40), "</svg>\n"));
}

}  // namespace tessera
