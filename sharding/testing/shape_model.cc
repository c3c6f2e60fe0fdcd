#include "sharding/testing/shape_model.h"

#include "absl/strings/str_cat.h"

namespace tessera::testing {
namespace {

ParameterSpec Parameter(std::string name, Shape shape) {
  ParameterSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  return spec;
}

std::shared_ptr<const Module> Shapes(DType dtype, bool last, int64_t width, int64_t saved) {
  Footprint footprint;
  if (!last) {
    footprint.output = {"output", dtype, {0, width}};
    footprint.saved = {{"a", dtype, {saved}}, {"b", DType::kFloat32, {7}}};
  }
  footprint.forward_workspace = 3 * width + 1;
  footprint.backward_workspace = 5 * width;
  return std::make_shared<ShapeModule>(std::move(footprint));
}

}  // namespace

Model MakeShapeModel(DType dtype, int blocks) {
  Model model;
  model.name = "shapes";
  model.dtype = dtype;
  model.fields = {{"x", DType::kInt32, {5}}, {"y", DType::kInt32, {5}}};
  model.units.push_back({"embedding", {Parameter("table", {37, 24}), Parameter("one", {1})}});
  model.units.push_back({"empty", {Parameter("nothing", {0, 4})}});
  model.units.push_back({"twice", {Parameter("weight", {24, 24}), Parameter("fifteen", {15})}});
  for (int b = 0; b < blocks; ++b) {
    model.units.push_back({absl::StrCat("block.", b),
                           {Parameter("weight", {24, 24 * (b + 5)}), Parameter("none", {0}),
                            Parameter("bias", {24 * (b + 5)})}});
  }
  model.units.push_back({"head", {Parameter("scale", {24})}});
  const int head = static_cast<int>(model.units.size()) - 1;

  const auto call = [&](std::string name, std::vector<ParameterUse> uses, int64_t width,
                        int64_t saved) -> Call& {
    Call& added = model.calls.emplace_back();
    added.name = std::move(name);
    added.uses = std::move(uses);
    added.module = Shapes(dtype, /*last=*/width == 0, width, saved);
    return added;
  };
  call("embed", {{0, 0}, {0, 1}, {1, 0}}, 24, 11).backward_reads_parameters = false;
  call("twice.first", {{2, 0}, {2, 1}}, 24, 33);
  for (int b = 0; b < blocks; ++b) {
    call(absl::StrCat("block.", b), {{3 + b, 0}, {3 + b, 1}, {3 + b, 2}}, 24, 100 + 31 * b)
        .recomputable = true;
  }
  call("twice.second", {{2, 0}, {2, 1}}, 24, 33);
  call("head", {{head, 0}, {0, 0}}, 0, 0);
  return model;
}

}  // namespace tessera::testing
