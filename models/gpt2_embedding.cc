#include <vector>

#include "core/status.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "models/gpt2_modules.h"
#include "models/workspace.h"

namespace tessera {
namespace {

class Gpt2Embedding : public Module {
 public:
  Gpt2Embedding(const Gpt2Config& config, DType dtype) : config_(config), dtype_(dtype) {}

  Footprint Measure(int64_t sequences) const override {
    Footprint footprint;
    footprint.output = {"embedding", dtype_, {sequences, config_.context, config_.width}};
    footprint.backward_workspace = BackwardBuffers(*this, sequences, nullptr).bytes;
    return footprint;
  }

  absl::Status Forward(const ForwardArguments& arguments) const override {
    if (arguments.output.data == nullptr) return absl::OkStatus();
    TESSERA_RETURN_IF_ERROR(kernels::EmbeddingForward(
        arguments.lane, arguments.micro_batch.fields[0], arguments.parameters[0],
        arguments.parameters[1], arguments.output));
    if (!DropsOut(arguments.micro_batch)) return absl::OkStatus();
    return Dropout(arguments.lane, arguments.micro_batch, arguments.output, arguments.output);
  }

  absl::Status Backward(const BackwardArguments& arguments) const override {
    const Tensor& tokens = arguments.micro_batch.fields[0];
    const BackwardBuffers buffers(*this, tokens.shape[0], arguments.workspace);
    Tensor gradient = arguments.output_gradient;
    if (DropsOut(arguments.micro_batch)) {
      gradient = buffers.gradient;
      TESSERA_RETURN_IF_ERROR(
          Dropout(arguments.lane, arguments.micro_batch, arguments.output_gradient, gradient));
    }
    return kernels::EmbeddingBackward(arguments.lane, tokens, gradient,
                                      arguments.parameter_gradients[0],
                                      arguments.parameter_gradients[1], buffers.sorting);
  }

 private:
  struct BackwardBuffers {
    BackwardBuffers(const Gpt2Embedding& module, int64_t sequences, std::byte* base) {
      const Gpt2Config& config = module.config_;
      Workspace workspace(base);
      sorting = workspace.TakeBytes(
          kernels::EmbeddingBackwardWorkspace(config.vocabulary, sequences * config.context));
      if (config.dropout > 0) {
        gradient = workspace.Take(module.dtype_, {sequences, config.context, config.width});
      }
      bytes = workspace.bytes();
    }
    std::byte* sorting;
    Tensor gradient;
    int64_t bytes;
  };

  bool DropsOut(const MicroBatch& micro_batch) const {
    return micro_batch.training && config_.dropout > 0;
  }

  absl::Status Dropout(Lane& lane, const MicroBatch& micro_batch, const Tensor& from,
                       const Tensor& to) const {
    const uint32_t stream = Gpt2DropoutStream(0, Gpt2Dropout::kEmbedding);
    return kernels::Dropout(lane, from, static_cast<float>(config_.dropout),
                            micro_batch.Dropout(stream), to);
  }

  const Gpt2Config config_;
  const DType dtype_;
};

}  // namespace

std::vector<ParameterSpec> Gpt2EmbeddingParameters(const Gpt2Config& config) {
  constexpr auto kNormal = ParameterSpec::Initialization::kNormal;
  return {{"wte.weight", {config.vocabulary, config.width}, kNormal, 0.02f, true},
          {"wpe.weight", {config.context, config.width}, kNormal, 0.02f, true}};
}

std::shared_ptr<const Module> MakeGpt2Embedding(const Gpt2Config& config, DType dtype) {
  return std::make_shared<Gpt2Embedding>(config, dtype);
}

}  // namespace tessera
