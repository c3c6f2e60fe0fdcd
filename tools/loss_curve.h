#ifndef TESSERA_TOOLS_LOSS_CURVE_H_
#define TESSERA_TOOLS_LOSS_CURVE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tessera {

struct LossPoint {
  double step = 0;
  double loss = 0;
};

// Draws both curves as an SVG picture. Points are in order of their steps; those
// whose loss is not finite are left out. Long curves are thinned by averaging.
absl::Status WriteLossCurve(const std::string& path, absl::Span<const LossPoint> train,
                            absl::Span<const LossPoint> validation);

// Values to mark on an axis from `low` to `high`: about `count` multiples of 1, 2
// or 5 times a power of ten. low < high.
struct AxisTicks {
  double first = 0;
  double distance = 0;
  int count = 0;
  int decimals = 0;  // that tell them apart
};
AxisTicks TicksFor(double low, double high, int count);

}  // namespace tessera

#endif  // TESSERA_TOOLS_LOSS_CURVE_H_
