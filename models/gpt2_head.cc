#include <vector>

#include "core/status.h"
#include "kernels/layernorm.h"
#include "kernels/linear_cross_entropy.h"
#include "kernels/matmul.h"
#include "models/gpt2_modules.h"
#include "models/workspace.h"

namespace tessera {
namespace {

using kernels::MatMul;
using kernels::Transpose;

enum Parameter { kLnWeight, kLnBias, kEmbedding };
enum Normalised { kLn, kLnMean, kLnRstd };

std::vector<TensorSpec> NormalisedSpecs(const Gpt2Config& config, DType dtype, int64_t sequences) {
  const Shape per_token = {sequences, config.context};
  return {{"ln_f", dtype, {sequences, config.context, config.width}},
          {"ln_f.mean", DType::kFloat32, per_token},
          {"ln_f.rstd", DType::kFloat32, per_token}};
}

std::vector<Tensor> TakeAll(Workspace& workspace, const std::vector<TensorSpec>& specs) {
  std::vector<Tensor> tensors;
  tensors.reserve(specs.size());
  for (const TensorSpec& spec : specs) tensors.push_back(workspace.Take(spec.dtype, spec.shape));
  return tensors;
}

absl::Status Normalise(Lane& lane, const Tensor& input, absl::Span<const Tensor> parameters,
                       absl::Span<const Tensor> normalised) {
  return kernels::LayerNormForward(lane, input, nullptr, nullptr, parameters[kLnWeight],
                                   parameters[kLnBias], normalised[kLn], normalised[kLnMean],
                                   normalised[kLnRstd]);
}

class Gpt2Head : public Module {
 public:
  Gpt2Head(const Gpt2Config& config, DType dtype) : config_(config), dtype_(dtype) {}

  Footprint Measure(int64_t sequences) const override {
    Footprint footprint;
    footprint.output = {"head", dtype_, {0}};
    footprint.forward_workspace = ForwardBuffers(*this, sequences, nullptr).bytes;
    footprint.backward_workspace = BackwardBuffers(*this, sequences, nullptr).bytes;
    return footprint;
  }

  absl::Status Forward(const ForwardArguments& arguments) const override {
    const ForwardBuffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    TESSERA_RETURN_IF_ERROR(
        Normalise(arguments.lane, arguments.input, arguments.parameters, buffers.normalised));
    return kernels::LinearCrossEntropy(
        arguments.lane, buffers.normalised[kLn], arguments.parameters[kEmbedding],
        arguments.micro_batch.fields[1], arguments.loss, buffers.logits);
  }

  absl::Status Backward(const BackwardArguments& arguments) const override {
    Lane& lane = arguments.lane;
    const absl::Span<const Tensor> parameters = arguments.parameters;
    const absl::Span<const Tensor> gradients = arguments.parameter_gradients;
    const BackwardBuffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    TESSERA_RETURN_IF_ERROR(Normalise(lane, arguments.input, parameters, buffers.normalised));
    TESSERA_RETURN_IF_ERROR(kernels::LinearCrossEntropyGradients(
        lane, buffers.normalised[kLn], parameters[kEmbedding], arguments.micro_batch.fields[1],
        static_cast<float>(arguments.micro_batch.gradient_scale), arguments.loss, buffers.d_normal,
        gradients[kEmbedding], buffers.logits));
    return kernels::LayerNormBackward(
        lane, buffers.d_normal, arguments.input, parameters[kLnWeight], buffers.normalised[kLnMean],
        buffers.normalised[kLnRstd], nullptr, arguments.input_gradient, gradients[kLnWeight],
        gradients[kLnBias], buffers.sums);
  }

 private:
  struct ForwardBuffers {
    ForwardBuffers(const Gpt2Head& head, int64_t sequences, std::byte* base) {
      Workspace workspace(base);
      logits = workspace.TakeBytes(kernels::LinearCrossEntropyWorkspace(
          sequences * head.config_.context, head.config_.vocabulary));
      normalised = TakeAll(workspace, NormalisedSpecs(head.config_, head.dtype_, sequences));
      bytes = workspace.bytes();
    }
    std::byte* logits;
    std::vector<Tensor> normalised;
    int64_t bytes;
  };

  struct BackwardBuffers {
    BackwardBuffers(const Gpt2Head& head, int64_t sequences, std::byte* base) {
      const Gpt2Config& config = head.config_;
      const int64_t rows = sequences * config.context;
      Workspace workspace(base);
      normalised = TakeAll(workspace, NormalisedSpecs(config, head.dtype_, sequences));
      d_normal = workspace.Take(head.dtype_, {sequences, config.context, config.width});
      logits = workspace.TakeBytes(
          kernels::LinearCrossEntropyGradientsWorkspace(rows, config.vocabulary, head.dtype_));
      sums = workspace.TakeBytes(kernels::LayerNormBackwardWorkspace(rows, config.width));
      bytes = workspace.bytes();
    }
    std::vector<Tensor> normalised;
    Tensor d_normal;
    std::byte* logits;  // and their gradients
    std::byte* sums;
    int64_t bytes;
  };

  const Gpt2Config config_;
  const DType dtype_;
};

class Gpt2Predictor : public Module {
 public:
  Gpt2Predictor(const Gpt2Config& config, DType dtype) : config_(config), dtype_(dtype) {}

  Footprint Measure(int64_t sequences) const override {
    Workspace workspace(nullptr);
    TakeAll(workspace, NormalisedSpecs(config_, dtype_, sequences));
    Footprint footprint;
    footprint.output = {
        "logits", DType::kFloat32, {sequences, config_.context, config_.vocabulary}};
    footprint.forward_workspace = workspace.bytes();
    return footprint;
  }

  absl::Status Forward(const ForwardArguments& arguments) const override {
    Workspace workspace(arguments.workspace);
    const std::vector<Tensor> normalised =
        TakeAll(workspace, NormalisedSpecs(config_, dtype_, arguments.input.shape[0]));
    TESSERA_RETURN_IF_ERROR(
        Normalise(arguments.lane, arguments.input, arguments.parameters, normalised));
    return MatMul(arguments.lane, normalised[kLn], Transpose::kNo, arguments.parameters[kEmbedding],
                  Transpose::kYes, nullptr, arguments.output);
  }

  absl::Status Backward(const BackwardArguments& /*arguments*/) const override {
    return absl::UnimplementedError("a predictor is not trained");
  }

 private:
  const Gpt2Config config_;
  const DType dtype_;
};

}  // namespace

std::vector<ParameterSpec> Gpt2HeadParameters(const Gpt2Config& config) {
  return {{"ln_f.weight", {config.width}, ParameterSpec::Initialization::kOnes},
          {"ln_f.bias", {config.width}}};
}

std::shared_ptr<const Module> MakeGpt2Head(const Gpt2Config& config, DType dtype) {
  return std::make_shared<Gpt2Head>(config, dtype);
}

std::shared_ptr<const Module> MakeGpt2Predictor(const Gpt2Config& config, DType dtype) {
  return std::make_shared<Gpt2Predictor>(config, dtype);
}

}  // namespace tessera
