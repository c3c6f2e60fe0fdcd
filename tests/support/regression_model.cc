#include "tests/support/regression_model.h"

#include <cmath>
#include <memory>

#include "core/philox.h"
#include "core/status.h"
#include "kernels/column_sum.h"
#include "kernels/elementwise.h"
#include "kernels/gelu.h"
#include "kernels/matmul.h"
#include "models/workspace.h"

namespace tessera::testing {
namespace {

using kernels::MatMul;
using kernels::Transpose;

enum Field { kFeatures, kTargets };

// y = x W + b of the features. Uses: W [features, width], b [width].
class Projection : public Module {
 public:
  Projection(const RegressionConfig& config, DType dtype) : config_(config), dtype_(dtype) {}

  Footprint Measure(int64_t sequences) const override {
    Footprint footprint;
    footprint.output = {"projection", dtype_, {sequences, config_.width}};
    const Buffers buffers(*this, sequences, nullptr);
    footprint.forward_workspace = footprint.backward_workspace = buffers.bytes;
    return footprint;
  }

  absl::Status Forward(const ForwardArguments& arguments) const override {
    if (arguments.output.data == nullptr) return absl::OkStatus();
    const Tensor& features = arguments.micro_batch.fields[kFeatures];
    const Buffers buffers(*this, features.shape[0], arguments.workspace);
    TESSERA_RETURN_IF_ERROR(kernels::Convert(arguments.lane, features, buffers.features));
    return MatMul(arguments.lane, buffers.features, Transpose::kNo, arguments.parameters[0],
                  Transpose::kNo, &arguments.parameters[1], arguments.output);
  }

  absl::Status Backward(const BackwardArguments& arguments) const override {
    const Tensor& features = arguments.micro_batch.fields[kFeatures];
    const Buffers buffers(*this, features.shape[0], arguments.workspace);
    TESSERA_RETURN_IF_ERROR(kernels::Convert(arguments.lane, features, buffers.features));
    TESSERA_RETURN_IF_ERROR(MatMul(arguments.lane, buffers.features, Transpose::kYes,
                                   arguments.output_gradient, Transpose::kNo, nullptr,
                                   arguments.parameter_gradients[0]));
    return kernels::ColumnSum(arguments.lane, arguments.output_gradient,
                              arguments.parameter_gradients[1], buffers.sums);
  }

 private:
  struct Buffers {
    Buffers(const Projection& module, int64_t sequences, std::byte* base) {
      Workspace workspace(base);
      features = workspace.Take(module.dtype_, {sequences, module.config_.features});
      sums = workspace.TakeBytes(kernels::ColumnSumWorkspace(sequences, module.config_.width));
      bytes = workspace.bytes();
    }
    Tensor features;  // in the model's dtype
    std::byte* sums;
    int64_t bytes;
  };

  const RegressionConfig config_;
  const DType dtype_;
};

// y = x + gelu(x U + c). Uses: U [width, width], c [width].
class Hidden : public Module {
 public:
  Hidden(const RegressionConfig& config, DType dtype) : config_(config), dtype_(dtype) {}

  Footprint Measure(int64_t sequences) const override {
    const Shape shape = {sequences, config_.width};
    Footprint footprint;
    footprint.output = {"hidden", dtype_, shape};
    footprint.saved = {{"z", dtype_, shape}};
    const Buffers buffers(*this, sequences, nullptr);
    footprint.forward_workspace = footprint.backward_workspace = buffers.bytes;
    return footprint;
  }

  absl::Status Forward(const ForwardArguments& arguments) const override {
    const Buffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    const Tensor& z = arguments.saved[0].data != nullptr ? arguments.saved[0] : buffers.z;
    TESSERA_RETURN_IF_ERROR(MatMul(arguments.lane, arguments.input, Transpose::kNo,
                                   arguments.parameters[0], Transpose::kNo,
                                   &arguments.parameters[1], z));
    if (arguments.output.data == nullptr) return absl::OkStatus();
    TESSERA_RETURN_IF_ERROR(kernels::GeluForward(arguments.lane, z, buffers.gelu));
    return kernels::Add(arguments.lane, arguments.input, buffers.gelu, arguments.output);
  }

  absl::Status Backward(const BackwardArguments& arguments) const override {
    Lane& lane = arguments.lane;
    const Buffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    const Tensor& d_z = buffers.z;
    TESSERA_RETURN_IF_ERROR(kernels::GeluBackward(lane, arguments.saved[0],
                                                  arguments.output_gradient, buffers.gelu, d_z));
    TESSERA_RETURN_IF_ERROR(MatMul(lane, arguments.input, Transpose::kYes, d_z, Transpose::kNo,
                                   nullptr, arguments.parameter_gradients[0]));
    TESSERA_RETURN_IF_ERROR(
        kernels::ColumnSum(lane, d_z, arguments.parameter_gradients[1], buffers.sums));
    TESSERA_RETURN_IF_ERROR(MatMul(lane, d_z, Transpose::kNo, arguments.parameters[0],
                                   Transpose::kYes, nullptr, buffers.gelu));
    return kernels::Add(lane, arguments.output_gradient, buffers.gelu, arguments.input_gradient);
  }

 private:
  struct Buffers {
    Buffers(const Hidden& module, int64_t sequences, std::byte* base) {
      const Shape shape = {sequences, module.config_.width};
      Workspace workspace(base);
      z = workspace.Take(module.dtype_, shape);
      gelu = workspace.Take(module.dtype_, shape);
      sums = workspace.TakeBytes(kernels::ColumnSumWorkspace(sequences, module.config_.width));
      bytes = workspace.bytes();
    }
    Tensor z;     // or its gradient
    Tensor gelu;  // or the gradient that comes through it
    std::byte* sums;
    int64_t bytes;
  };

  const RegressionConfig config_;
  const DType dtype_;
};

float Only(const Tensor& tensor) {
  return tensor.dtype == DType::kFloat32 ? *tensor.as<float>()
                                         : static_cast<float>(*tensor.as<BFloat16>());
}

// The sum over all elements of (gain * x W^T - targets)^2. Uses: gain [1], nothing
// [0, 3], another nothing [0], and W [features, width].
class SquaredError : public Module {
 public:
  SquaredError(const RegressionConfig& config, DType dtype) : config_(config), dtype_(dtype) {}

  Footprint Measure(int64_t sequences) const override {
    Footprint footprint;
    footprint.output = {"loss", dtype_, {0}};
    const Buffers buffers(*this, sequences, nullptr);
    footprint.forward_workspace = footprint.backward_workspace = buffers.bytes;
    return footprint;
  }

  absl::Status Forward(const ForwardArguments& arguments) const override {
    const Buffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    TESSERA_RETURN_IF_ERROR(MatMul(arguments.lane, arguments.input, Transpose::kNo,
                                   arguments.parameters[kWeight], Transpose::kYes, nullptr,
                                   buffers.product));
    const float gain = Only(arguments.parameters[kGain]);
    const auto* product = buffers.product.as<float>();
    const auto* targets = arguments.micro_batch.fields[kTargets].as<float>();
    *arguments.loss = 0;
    for (int64_t i = 0; i < buffers.product.elements(); ++i) {
      const double error = gain * product[i] - targets[i];
      *arguments.loss += error * error;
    }
    return absl::OkStatus();
  }

  absl::Status Backward(const BackwardArguments& arguments) const override {
    Lane& lane = arguments.lane;
    const Buffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    // Leaves the product in its buffer.
    TESSERA_RETURN_IF_ERROR(Forward({.lane = lane,
                                     .micro_batch = arguments.micro_batch,
                                     .input = arguments.input,
                                     .parameters = arguments.parameters,
                                     .output = {},
                                     .saved = {},
                                     .workspace = arguments.workspace,
                                     .loss = arguments.loss}));
    const float gain = Only(arguments.parameters[kGain]);
    auto* const product = buffers.product.as<float>();
    const auto* targets = arguments.micro_batch.fields[kTargets].as<float>();
    const auto scale = static_cast<float>(2 * arguments.micro_batch.gradient_scale);
    float d_gain = 0;
    for (int64_t i = 0; i < buffers.product.elements(); ++i) {
      const float d_y = scale * (gain * product[i] - targets[i]);
      d_gain += d_y * product[i];
      product[i] = gain * d_y;
    }
    const Tensor one = {&d_gain, DType::kFloat32, {1}};
    TESSERA_RETURN_IF_ERROR(kernels::Convert(lane, one, arguments.parameter_gradients[kGain]));
    TESSERA_RETURN_IF_ERROR(kernels::Convert(lane, buffers.product, buffers.d_product));
    TESSERA_RETURN_IF_ERROR(MatMul(lane, buffers.d_product, Transpose::kYes, arguments.input,
                                   Transpose::kNo, nullptr,
                                   arguments.parameter_gradients[kWeight]));
    return MatMul(lane, buffers.d_product, Transpose::kNo, arguments.parameters[kWeight],
                  Transpose::kNo, nullptr, arguments.input_gradient);
  }

 private:
  enum Use { kGain = 0, kWeight = 3 };

  struct Buffers {
    Buffers(const SquaredError& module, int64_t sequences, std::byte* base) {
      const Shape shape = {sequences, module.config_.features};
      Workspace workspace(base);
      product = workspace.Take(DType::kFloat32, shape);
      d_product = workspace.Take(module.dtype_, shape);
      bytes = workspace.bytes();
    }
    Tensor product;    // or its gradient
    Tensor d_product;  // in the model's dtype
    int64_t bytes;
  };

  const RegressionConfig config_;
  const DType dtype_;
};

}  // namespace

Model MakeRegression(const RegressionConfig& config, DType dtype) {
  constexpr auto kNormal = ParameterSpec::Initialization::kNormal;
  const ParameterSpec gain = {"gain", {1}, ParameterSpec::Initialization::kOnes};
  Model model;
  model.name = "regression";
  model.dtype = dtype;
  model.units = {
      {"projection",
       {{"weight", {config.features, config.width}, kNormal, 0.3f, true},
        {"bias", {config.width}}}},
      {"hidden",
       {{"weight", {config.width, config.width}, kNormal, 0.2f, true}, {"bias", {config.width}}}},
      {"gain", {gain, {"nothing", {0, 3}}}},
      {"empty", {{"nothing", {0}}}},
  };
  enum Unit { kProjection, kHidden, kGain, kEmpty };
  const auto hidden = std::make_shared<Hidden>(config, dtype);
  const std::vector<ParameterUse> hidden_uses = {{kHidden, 0}, {kHidden, 1}};
  model.calls = {
      {"projection",
       std::make_shared<Projection>(config, dtype),
       {{kProjection, 0}, {kProjection, 1}},
       /*backward_reads_parameters=*/false},
      {"hidden.0", hidden, hidden_uses, true, /*recomputable=*/true},
      {"hidden.1", hidden, hidden_uses, true, /*recomputable=*/true},
      {"error",
       std::make_shared<SquaredError>(config, dtype),
       {{kGain, 0}, {kGain, 1}, {kEmpty, 0}, {kProjection, 0}}},
  };
  model.fields = {{"features", DType::kFloat32, {config.features}},
                  {"targets", DType::kFloat32, {config.features}}};
  model.targets_per_sequence = config.features;
  return model;
}

absl::Status RegressionData::Read(int64_t first_sequence, int64_t sequences,
                                  absl::Span<const Tensor> fields) {
  const int64_t features = fields[kFeatures].shape[1];
  for (int64_t s = 0; s < sequences; ++s) {
    const RandomKey key = {3, RandomPurpose::kShuffle, 1, 0,
                           static_cast<uint32_t>(first_sequence + s)};
    const auto x = [&](int64_t f) { return 2 * UnitFloat(key.Word(f % features)) - 1; };
    for (int64_t f = 0; f < features; ++f) {
      fields[kFeatures].as<float>()[s * features + f] = x(f);
      fields[kTargets].as<float>()[s * features + f] = std::sin(2 * x(f)) * x(f + 1) + 0.3f;
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera::testing
