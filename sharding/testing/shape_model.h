#ifndef TESSERA_SHARDING_TESTING_SHAPE_MODEL_H_
#define TESSERA_SHARDING_TESTING_SHAPE_MODEL_H_

#include "models/module.h"

namespace tessera::testing {

// A module that has shapes but cannot compute: enough for planning.
class ShapeModule : public Module {
 public:
  explicit ShapeModule(Footprint footprint) : footprint_(std::move(footprint)) {}
  Footprint Measure(int64_t sequences) const override {
    Footprint footprint = footprint_;
    if (!footprint.output.shape.empty()) footprint.output.shape[0] = sequences;
    return footprint;
  }
  absl::Status Forward(const ForwardArguments&) const override {
    return absl::InternalError("shapes only");
  }
  absl::Status Backward(const BackwardArguments&) const override {
    return absl::InternalError("shapes only");
  }

 private:
  Footprint footprint_;
};

// A chain that has what is hard: a parameter of no elements, one of 1 and one of
// 15, an empty unit, a tied parameter (first and last call), a module and a unit
// that are used twice, apart, and blocks that can be recomputed.
Model MakeShapeModel(DType dtype, int blocks);

}  // namespace tessera::testing

#endif  // TESSERA_SHARDING_TESTING_SHAPE_MODEL_H_
