#include "models/gpt2.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status.h"
#include "models/gpt2_modules.h"

namespace tessera {
namespace {

constexpr int kEmbeddingUnit = 0;

absl::Status CheckPositive(absl::string_view key, int64_t value, int64_t largest) {
  if (value >= 1 && value <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", key, " is ", value, ": set it to a number from 1 to ", largest));
}

absl::Status Validate(const Gpt2Config& config, DType dtype) {
  constexpr int64_t kInt32Limit = (int64_t{1} << 31) - 1;
  TESSERA_RETURN_IF_ERROR(CheckPositive("layers", config.layers, 1 << 20));
  TESSERA_RETURN_IF_ERROR(CheckPositive("heads", config.heads, 1 << 20));
  TESSERA_RETURN_IF_ERROR(CheckPositive("width", config.width, 1 << 20));
  TESSERA_RETURN_IF_ERROR(CheckPositive("context", config.context, 1 << 24));
  TESSERA_RETURN_IF_ERROR(CheckPositive("vocabulary", config.vocabulary, kInt32Limit));
  if (config.width % config.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.width ", config.width, " is not a multiple of model.heads ",
                     config.heads, ": change one of them, so that every head is equally wide"));
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.dropout is ", config.dropout, ": set it to at least 0 and below 1"));
  }
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("precision ", NameOf(dtype), ": choose fp32 or bf16"));
  }
  return absl::OkStatus();
}

// With causal attention counted as the half of the square that is computed.
double FlopsPerSequence(const Gpt2Config& config) {
  const auto layers = static_cast<double>(config.layers);
  const auto width = static_cast<double>(config.width);
  const auto length = static_cast<double>(config.context);
  const double multiplied =
      layers * 12 * width * width + static_cast<double>(config.vocabulary) * width;
  return length * (6 * multiplied + 6 * layers * width * length);
}

std::vector<ParameterUse> UsesOf(const Model& model, int unit) {
  const auto parameters = static_cast<int>(model.units[unit].parameters.size());
  std::vector<ParameterUse> uses;
  uses.reserve(parameters);
  for (int parameter = 0; parameter < parameters; ++parameter) uses.push_back({unit, parameter});
  return uses;
}

}  // namespace

absl::StatusOr<Model> MakeGpt2(const Gpt2Config& config, DType dtype) {
  TESSERA_RETURN_IF_ERROR(Validate(config, dtype));
  Model model;
  model.name = "gpt2";
  model.dtype = dtype;
  model.fields = {{"tokens", DType::kInt32, {config.context}},
                  {"targets", DType::kInt32, {config.context}}};
  model.targets_per_sequence = config.context;
  model.flops_per_sequence = FlopsPerSequence(config);

  const auto add_unit = [&](const std::string& name, std::vector<ParameterSpec> parameters) {
    model.units.push_back({name, std::move(parameters)});
    return static_cast<int>(model.units.size()) - 1;
  };
  const auto add_call = [&](const std::string& name, std::shared_ptr<const Module> module,
                            int unit) -> Call& {
    model.calls.push_back({name, std::move(module), UsesOf(model, unit)});
    return model.calls.back();
  };

  add_unit("embedding", Gpt2EmbeddingParameters(config));
  add_call("embedding", MakeGpt2Embedding(config, dtype), kEmbeddingUnit)
      .backward_reads_parameters = false;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = absl::StrCat("block.", layer);
    const int unit = add_unit(name, Gpt2BlockParameters(config));
    add_call(name, MakeGpt2Block(config, dtype, layer), unit).recomputable = true;
  }
  const int head = add_unit("head", Gpt2HeadParameters(config));
  add_call("head", MakeGpt2Head(config, dtype), head).uses.push_back({kEmbeddingUnit, 0});
  model.predictor = MakeGpt2Predictor(config, dtype);
  return model;
}

}  // namespace tessera
