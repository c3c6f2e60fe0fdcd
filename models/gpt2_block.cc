#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/status.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/layernorm.h"
#include "kernels/linear.h"
#include "models/gpt2_modules.h"
#include "models/workspace.h"

namespace tessera {
namespace {

// The parameters, in the order of Gpt2BlockParameters.
enum Parameter {
  kLn1Weight,
  kLn1Bias,
  kQkvWeight,
  kQkvBias,
  kAttentionProjectionWeight,
  kAttentionProjectionBias,
  kLn2Weight,
  kLn2Bias,
  kFcWeight,
  kFcBias,
  kMlpProjectionWeight,
  kMlpProjectionBias,
};

// What Forward saves, in the order of Footprint::saved. The output of GELU, the
// widest of all, is computed again from its input instead.
enum Saved {
  kLn1,
  kLn1Mean,
  kLn1Rstd,
  kQkv,
  kAttention,
  kLogSumExp,
  kSum,  // the residual stream between attention and MLP
  kLn2,
  kLn2Mean,
  kLn2Rstd,
  kFc,
};

class Gpt2Block : public Module {
 public:
  Gpt2Block(const Gpt2Config& config, DType dtype, int64_t layer)
      : config_(config), dtype_(dtype), layer_(layer) {}

  Footprint Measure(int64_t sequences) const override {
    const Shape per_token = {sequences, config_.context};
    const auto wide = [&](int64_t factor) {
      return Shape{sequences, config_.context, factor * config_.width};
    };
    Footprint footprint;
    footprint.output = {"block", dtype_, wide(1)};
    footprint.saved = {
        {"ln_1", dtype_, wide(1)},
        {"ln_1.mean", DType::kFloat32, per_token},
        {"ln_1.rstd", DType::kFloat32, per_token},
        {"attn.c_attn", dtype_, wide(3)},
        {"attn", dtype_, wide(1)},
        {"attn.log_sum_exp", DType::kFloat32, {sequences, config_.heads, config_.context}},
        {"sum", dtype_, wide(1)},
        {"ln_2", dtype_, wide(1)},
        {"ln_2.mean", DType::kFloat32, per_token},
        {"ln_2.rstd", DType::kFloat32, per_token},
        {"mlp.c_fc", dtype_, wide(4)},
    };
    footprint.forward_workspace = std::max(TrainingBuffers(*this, sequences, nullptr).bytes,
                                           EvaluationBuffers(*this, sequences, nullptr).bytes);
    footprint.backward_workspace = BackwardBuffers(*this, sequences, nullptr).bytes;
    return footprint;
  }

  absl::Status Forward(const ForwardArguments& arguments) const override {
    const int64_t sequences = arguments.input.shape[0];
    if (arguments.saved[kLn1].data != nullptr) {
      const TrainingBuffers buffers(*this, sequences, arguments.workspace);
      return Forward(arguments, arguments.saved, buffers.gelu);
    }
    const EvaluationBuffers buffers(*this, sequences, arguments.workspace);
    return Forward(arguments, buffers.saved, buffers.gelu);
  }

  absl::Status Backward(const BackwardArguments& arguments) const override {
    const BackwardBuffers buffers(*this, arguments.input.shape[0], arguments.workspace);
    TESSERA_RETURN_IF_ERROR(BackwardMlp(arguments, buffers));
    return BackwardAttention(arguments, buffers);
  }

 private:
  struct TrainingBuffers {
    TrainingBuffers(const Gpt2Block& block, int64_t sequences, std::byte* base) {
      const Gpt2Config& config = block.config_;
      Workspace workspace(base);
      gelu = workspace.Take(block.dtype_, {sequences, config.context, 4 * config.width});
      bytes = workspace.bytes();
    }
    Tensor gelu;
    int64_t bytes;
  };

  // Nothing is saved: the tensors of Saved, in memory that they share in turn.
  struct EvaluationBuffers {
    EvaluationBuffers(const Gpt2Block& block, int64_t sequences, std::byte* base) {
      const Gpt2Config& config = block.config_;
      const auto wide = [&](int64_t factor) {
        return Shape{sequences, config.context, factor * config.width};
      };
      Workspace workspace(base);
      const Tensor mean = workspace.Take(DType::kFloat32, {sequences, config.context});
      const Tensor rstd = workspace.Take(DType::kFloat32, {sequences, config.context});
      const Tensor no_log_sum_exp{
          nullptr, DType::kFloat32, {sequences, config.heads, config.context}};
      const Tensor sum = workspace.Take(block.dtype_, wide(1));
      const Tensor normal = workspace.Take(block.dtype_, wide(1));
      // The attention's memory is free once `sum` is there, which GELU follows.
      gelu = workspace.Take(block.dtype_, wide(4));
      const Tensor qkv{gelu.data, block.dtype_, wide(3)};
      auto* after_qkv =
          gelu.data == nullptr ? nullptr : static_cast<std::byte*>(gelu.data) + qkv.bytes();
      const Tensor attention{after_qkv, block.dtype_, wide(1)};
      const Tensor no_fc{nullptr, block.dtype_, wide(4)};
      saved = {normal, mean, rstd, qkv, attention, no_log_sum_exp, sum, normal, mean, rstd, no_fc};
      bytes = workspace.bytes();
    }
    std::vector<Tensor> saved;
    Tensor gelu;
    int64_t bytes;
  };

  struct BackwardBuffers {
    BackwardBuffers(const Gpt2Block& block, int64_t sequences, std::byte* base) {
      const Gpt2Config& config = block.config_;
      const int64_t rows = sequences * config.context;
      const auto wide = [&](int64_t factor) {
        return Shape{sequences, config.context, factor * config.width};
      };
      Workspace workspace(base);
      dropped = workspace.Take(block.dtype_, wide(1));
      d_sum = workspace.Take(block.dtype_, wide(1));
      gelu = workspace.Take(block.dtype_, wide(4));
      d_fc = workspace.Take(block.dtype_, wide(4));
      d_qkv = {d_fc.data, block.dtype_, wide(3)};
      auto* after_qkv =
          d_fc.data == nullptr ? nullptr : static_cast<std::byte*>(d_fc.data) + d_qkv.bytes();
      d_attention = {after_qkv, block.dtype_, wide(1)};
      sums = workspace.TakeBytes(
          std::max({kernels::LinearBackwardWorkspace(rows, 4 * config.width),
                    kernels::LayerNormBackwardWorkspace(rows, config.width),
                    kernels::AttentionBackwardWorkspace(sequences, config.heads, config.context)}));
      bytes = workspace.bytes();
    }
    Tensor dropped;      // a gradient through dropout, or of ln_1's output
    Tensor d_sum;        // of ln_2's output, then of the sum
    Tensor gelu;         // GELU's output again
    Tensor d_fc;         // the gradient of GELU's output, then of its input
    Tensor d_qkv;        // in d_fc's memory, once that is done with
    Tensor d_attention;  // also
    std::byte* sums;
    int64_t bytes;
  };

  float Probability(const MicroBatch& micro_batch) const {
    return micro_batch.training ? static_cast<float>(config_.dropout) : 0.0f;
  }

  RandomKey Key(const MicroBatch& micro_batch, Gpt2Dropout place) const {
    return micro_batch.Dropout(Gpt2DropoutStream(layer_, place));
  }

  absl::Status DropInPlace(const ForwardArguments& arguments, Gpt2Dropout place,
                           const Tensor& tensor) const {
    const float probability = Probability(arguments.micro_batch);
    if (probability == 0) return absl::OkStatus();
    return kernels::Dropout(arguments.lane, tensor, probability, Key(arguments.micro_batch, place),
                            tensor);
  }

  // *dropped = the gradient of what was dropped; `gradient` itself without dropout.
  absl::Status DropGradient(const BackwardArguments& arguments, Gpt2Dropout place,
                            const Tensor& gradient, const Tensor& buffer, Tensor* dropped) const {
    const float probability = Probability(arguments.micro_batch);
    *dropped = probability == 0 ? gradient : buffer;
    if (probability == 0) return absl::OkStatus();
    return kernels::Dropout(arguments.lane, gradient, probability,
                            Key(arguments.micro_batch, place), buffer);
  }

  // Without saved[kFc] only what follows from it is computed.
  absl::Status Forward(const ForwardArguments& arguments, absl::Span<const Tensor> saved,
                       const Tensor& gelu) const {
    Lane& lane = arguments.lane;
    const absl::Span<const Tensor> parameters = arguments.parameters;
    TESSERA_RETURN_IF_ERROR(kernels::LayerNormForward(
        lane, arguments.input, nullptr, nullptr, parameters[kLn1Weight], parameters[kLn1Bias],
        saved[kLn1], saved[kLn1Mean], saved[kLn1Rstd]));
    TESSERA_RETURN_IF_ERROR(kernels::LinearForward(lane, saved[kLn1], parameters[kQkvWeight],
                                                   parameters[kQkvBias], saved[kQkv]));
    TESSERA_RETURN_IF_ERROR(kernels::AttentionForward(
        lane, saved[kQkv], config_.heads, config_.heads, Probability(arguments.micro_batch),
        Key(arguments.micro_batch, Gpt2Dropout::kAttention), saved[kAttention], saved[kLogSumExp]));
    const Tensor& sum = saved[kSum];
    TESSERA_RETURN_IF_ERROR(kernels::LinearForward(lane, saved[kAttention],
                                                   parameters[kAttentionProjectionWeight],
                                                   parameters[kAttentionProjectionBias], sum));
    TESSERA_RETURN_IF_ERROR(DropInPlace(arguments, Gpt2Dropout::kAttentionOutput, sum));
    TESSERA_RETURN_IF_ERROR(kernels::LayerNormForward(
        lane, sum, &arguments.input, &sum, parameters[kLn2Weight], parameters[kLn2Bias],
        saved[kLn2], saved[kLn2Mean], saved[kLn2Rstd]));
    const Tensor* const fc = saved[kFc].data == nullptr ? nullptr : &saved[kFc];
    TESSERA_RETURN_IF_ERROR(kernels::LinearGeluForward(lane, saved[kLn2], parameters[kFcWeight],
                                                       parameters[kFcBias], fc, gelu));

    const Tensor& output = arguments.output;
    if (output.data == nullptr) return absl::OkStatus();
    TESSERA_RETURN_IF_ERROR(kernels::LinearForward(lane, gelu, parameters[kMlpProjectionWeight],
                                                   parameters[kMlpProjectionBias], output));
    TESSERA_RETURN_IF_ERROR(DropInPlace(arguments, Gpt2Dropout::kMlpOutput, output));
    return kernels::Add(lane, sum, output, output);
  }

  // Leaves the gradient of the sum in buffers.d_sum.
  absl::Status BackwardMlp(const BackwardArguments& arguments,
                           const BackwardBuffers& buffers) const {
    Lane& lane = arguments.lane;
    const absl::Span<const Tensor> saved = arguments.saved;
    const absl::Span<const Tensor> parameters = arguments.parameters;
    const absl::Span<const Tensor> gradients = arguments.parameter_gradients;
    Tensor d_output;
    TESSERA_RETURN_IF_ERROR(DropGradient(arguments, Gpt2Dropout::kMlpOutput,
                                         arguments.output_gradient, buffers.dropped, &d_output));
    TESSERA_RETURN_IF_ERROR(kernels::LinearBackwardGelu(
        lane, d_output, parameters[kMlpProjectionWeight], saved[kFc], buffers.d_fc, buffers.gelu));
    TESSERA_RETURN_IF_ERROR(kernels::LinearBackwardParameters(
        lane, buffers.gelu, d_output,
        {gradients[kMlpProjectionWeight], gradients[kMlpProjectionBias]}, buffers.sums));
    TESSERA_RETURN_IF_ERROR(kernels::LinearBackwardParameters(
        lane, saved[kLn2], buffers.d_fc, {gradients[kFcWeight], gradients[kFcBias]}, buffers.sums));
    TESSERA_RETURN_IF_ERROR(
        kernels::LinearBackwardInput(lane, buffers.d_fc, parameters[kFcWeight], buffers.d_sum));
    return kernels::LayerNormBackward(lane, buffers.d_sum, saved[kSum], parameters[kLn2Weight],
                                      saved[kLn2Mean], saved[kLn2Rstd], &arguments.output_gradient,
                                      buffers.d_sum, gradients[kLn2Weight], gradients[kLn2Bias],
                                      buffers.sums);
  }

  absl::Status BackwardAttention(const BackwardArguments& arguments,
                                 const BackwardBuffers& buffers) const {
    Lane& lane = arguments.lane;
    const absl::Span<const Tensor> saved = arguments.saved;
    const absl::Span<const Tensor> parameters = arguments.parameters;
    const absl::Span<const Tensor> gradients = arguments.parameter_gradients;
    Tensor d_projection;
    TESSERA_RETURN_IF_ERROR(DropGradient(arguments, Gpt2Dropout::kAttentionOutput, buffers.d_sum,
                                         buffers.dropped, &d_projection));
    TESSERA_RETURN_IF_ERROR(kernels::LinearBackwardParameters(
        lane, saved[kAttention], d_projection,
        {gradients[kAttentionProjectionWeight], gradients[kAttentionProjectionBias]},
        buffers.sums));
    TESSERA_RETURN_IF_ERROR(kernels::LinearBackwardInput(
        lane, d_projection, parameters[kAttentionProjectionWeight], buffers.d_attention));
    TESSERA_RETURN_IF_ERROR(kernels::AttentionBackward(
        lane, saved[kQkv], saved[kAttention], saved[kLogSumExp], buffers.d_attention, config_.heads,
        config_.heads, Probability(arguments.micro_batch),
        Key(arguments.micro_batch, Gpt2Dropout::kAttention), buffers.d_qkv, buffers.sums));
    TESSERA_RETURN_IF_ERROR(kernels::LinearBackwardParameters(
        lane, saved[kLn1], buffers.d_qkv, {gradients[kQkvWeight], gradients[kQkvBias]},
        buffers.sums));
    const Tensor& d_normal = buffers.dropped;
    TESSERA_RETURN_IF_ERROR(
        kernels::LinearBackwardInput(lane, buffers.d_qkv, parameters[kQkvWeight], d_normal));
    return kernels::LayerNormBackward(lane, d_normal, arguments.input, parameters[kLn1Weight],
                                      saved[kLn1Mean], saved[kLn1Rstd], &buffers.d_sum,
                                      arguments.input_gradient, gradients[kLn1Weight],
                                      gradients[kLn1Bias], buffers.sums);
  }

  const Gpt2Config config_;
  const DType dtype_;
  const int64_t layer_;
};

}  // namespace

std::vector<ParameterSpec> Gpt2BlockParameters(const Gpt2Config& config) {
  using Initialization = ParameterSpec::Initialization;
  const int64_t width = config.width;
  constexpr float kDeviation = 0.02f;
  // Every block adds to the residual stream twice.
  const auto residual_deviation = static_cast<float>(
      static_cast<double>(kDeviation) / std::sqrt(2.0 * static_cast<double>(config.layers)));
  const auto weight = [](const char* name, Shape shape, float deviation) {
    return ParameterSpec{name, std::move(shape), Initialization::kNormal, deviation, true};
  };
  const auto bias = [](const char* name, int64_t size) { return ParameterSpec{name, {size}}; };
  const auto scale = [&](const char* name) {
    return ParameterSpec{name, {width}, Initialization::kOnes};
  };
  return {scale("ln_1.weight"),
          bias("ln_1.bias", width),
          weight("attn.c_attn.weight", {width, 3 * width}, kDeviation),
          bias("attn.c_attn.bias", 3 * width),
          weight("attn.c_proj.weight", {width, width}, residual_deviation),
          bias("attn.c_proj.bias", width),
          scale("ln_2.weight"),
          bias("ln_2.bias", width),
          weight("mlp.c_fc.weight", {width, 4 * width}, kDeviation),
          bias("mlp.c_fc.bias", 4 * width),
          weight("mlp.c_proj.weight", {4 * width, width}, residual_deviation),
          bias("mlp.c_proj.bias", width)};
}

std::shared_ptr<const Module> MakeGpt2Block(const Gpt2Config& config, DType dtype, int64_t layer) {
  return std::make_shared<Gpt2Block>(config, dtype, layer);
}

}  // namespace tessera
