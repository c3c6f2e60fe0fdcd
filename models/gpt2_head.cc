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
// The gradient of the logits is made with the loss, in one pass over them.
enum Saved { kLn, kLnMean, kLnRstd, kLogitsGradient };

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

absl::Status Normalise(const ForwardArguments& arguments, absl::Span<const Tensor> normalised) {
  return kernels::LayerNormForward(arguments.lane, arguments.input, nullptr, nullptr,
                                   arguments.parameters[kLnWeight], arguments.parameters[kLnBias],
                                   normalised[kLn], normalised[kLnMean], normalised[kLnRstd]);
}

class Gpt2Head : public Module {
 public:
  Gpt2Head(const Gpt2Config& config, DType dtype) : config_(config), dtype_(dtype) {}

  Footprint Measure(int64_t sequences) const override {
    Footprint footprint;
    footprint.output = {"head", dtype_, {0}};
    footprint.saved = NormalisedSpecs(config_, dtype_, sequences);
    footprint.saved.push_back(
        {"logits.gradient", dtype_, {sequences, config_.context, config_.vocabulary}});
    footprint.forward_workspace = ForwardBuffers(*this, sequences, nullptr).bytes;
    footprint.backward_workspace = BackwardBuffers(*this, sequences, nullptr).bytes;
    return footprint;
  }

  absl::Status Forward(const ForwardArguments& arguments) const override {
    const ForwardBuffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    const bool saves = arguments.saved[kLn].data != nullptr;
    const absl::Span<const Tensor> normalised =
        saves ? arguments.saved : absl::MakeConstSpan(buffers.normalised);
    TESSERA_RETURN_IF_ERROR(Normalise(arguments, normalised));
    return kernels::LinearCrossEntropy(
        arguments.lane, normalised[kLn], arguments.parameters[kEmbedding],
        arguments.micro_batch.fields[1], static_cast<float>(arguments.micro_batch.gradient_scale),
        arguments.loss, saves ? &arguments.saved[kLogitsGradient] : nullptr, buffers.logits);
  }

  absl::Status Backward(const BackwardArguments& arguments) const override {
    Lane& lane = arguments.lane;
    const absl::Span<const Tensor> saved = arguments.saved;
    const absl::Span<const Tensor> gradients = arguments.parameter_gradients;
    const BackwardBuffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    const Tensor& d_logits = saved[kLogitsGradient];
    TESSERA_RETURN_IF_ERROR(MatMul(lane, d_logits, Transpose::kYes, saved[kLn], Transpose::kNo,
                                   nullptr, gradients[kEmbedding]));
    TESSERA_RETURN_IF_ERROR(MatMul(lane, d_logits, Transpose::kNo, arguments.parameters[kEmbedding],
                                   Transpose::kNo, nullptr, buffers.d_normal));
    return kernels::LayerNormBackward(lane, buffers.d_normal, arguments.input,
                                      arguments.parameters[kLnWeight], saved[kLnMean],
                                      saved[kLnRstd], nullptr, arguments.input_gradient,
                                      gradients[kLnWeight], gradients[kLnBias], buffers.sums);
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
    std::vector<Tensor> normalised;  // where nothing is saved
    int64_t bytes;
  };

  struct BackwardBuffers {
    BackwardBuffers(const Gpt2Head& head, int64_t sequences, std::byte* base) {
      const Gpt2Config& config = head.config_;
      Workspace workspace(base);
      d_normal = workspace.Take(head.dtype_, {sequences, config.context, config.width});
      sums = workspace.TakeBytes(
          kernels::LayerNormBackwardWorkspace(sequences * config.context, config.width));
      bytes = workspace.bytes();
    }
    Tensor d_normal;
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
    TESSERA_RETURN_IF_ERROR(Normalise(arguments, normalised));
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
