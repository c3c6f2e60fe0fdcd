#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/safetensors.h"
#include "core/status.h"
#include "models/formats/gpt2_weights.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr char kPrefix[] = "transformer.";
constexpr char kHead[] = "lm_head.weight";
constexpr char kEmbedding[] = "wte.weight";

absl::StatusOr<json> ReadJson(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot open"));
  std::ostringstream text;
  text << file.rdbuf();
  try {
    json content = json::parse(text.str());
    if (content.is_object()) return content;
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": is no JSON object"));
}

// What a member must be, if it is there, for the model to be MakeGpt2's.
absl::Status CheckMembers(const std::string& path, const json& config) {
  const std::vector<std::pair<std::string, std::vector<json>>> expected = {
      {"model_type", {"gpt2"}},
      {"activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
      {"tie_word_embeddings", {true}},
      {"scale_attn_weights", {true}},
      {"scale_attn_by_inverse_layer_idx", {false}},
      {"add_cross_attention", {false}},
  };
  for (const auto& [key, values] : expected) {
    if (!config.contains(key)) continue;
    if (std::find(values.begin(), values.end(), config[key]) != values.end()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", key, " is ", config[key].dump(), "; expected ", values[0].dump()));
  }
  if (config.contains("layer_norm_epsilon") &&
      !(config["layer_norm_epsilon"].is_number() && config["layer_norm_epsilon"] == 1e-5)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": layer_norm_epsilon is ", config["layer_norm_epsilon"].dump(), "; expected 1e-05"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Gpt2Config> ConfigFrom(const std::string& path, const json& text) {
  TESSERA_RETURN_IF_ERROR(CheckMembers(path, text));
  Gpt2Config config;
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, int64_t*>>{{"n_layer", &config.layers},
                                                     {"n_head", &config.heads},
                                                     {"n_embd", &config.width},
                                                     {"n_positions", &config.context},
                                                     {"vocab_size", &config.vocabulary}}) {
    if (!text.contains(key) || !text[key].is_number_integer()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", key, " is missing, or no number"));
    }
    *value = text[key];
  }
  constexpr int64_t kMostLayers = 10'000;
  if (config.layers > kMostLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": n_layer is ", config.layers, "; expected at most ", kMostLayers));
  }
  if (text.contains("n_inner") && !text["n_inner"].is_null() &&
      text["n_inner"] != 4 * config.width) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": n_inner is ", text["n_inner"].dump(),
                                                   "; expected 4 n_embd = ", 4 * config.width));
  }
  return config;
}

class HuggingFaceGpt2 final : public Gpt2Weights {
 public:
  HuggingFaceGpt2(std::string folder, const Gpt2Config& config)
      : folder_(std::move(folder)), config_(config) {}

  const Gpt2Config& config() const override { return config_; }
  std::string path() const override { return folder_; }

  absl::Status OpenFiles() {
    const std::string index = absl::StrCat(folder_, "/model.safetensors.index.json");
    std::set<std::string> names = {"model.safetensors"};
    if (std::ifstream(index).good()) {
      TESSERA_ASSIGN_OR_RETURN(const json content, ReadJson(index));
      if (!content.contains("weight_map") || !content["weight_map"].is_object()) {
        return absl::InvalidArgumentError(absl::StrCat(index, ": has no weight_map"));
      }
      names.clear();
      for (const auto& [tensor, file] : content["weight_map"].items()) {
        if (!file.is_string() || absl::StrContains(file.get<std::string>(), "/")) {
          return absl::InvalidArgumentError(
              absl::StrCat(index, ": ", tensor, " is in ", file.dump()));
        }
        names.insert(file.get<std::string>());
      }
    }
    files_.reserve(names.size());
    for (const std::string& name : names) {
      TESSERA_ASSIGN_OR_RETURN(SafetensorsFile file,
                               SafetensorsFile::Open(absl::StrCat(folder_, "/", name)));
      files_.push_back(std::move(file));
    }
    for (size_t f = 0; f < files_.size(); ++f) {
      for (const auto& [name, entry] : files_[f].entries()) {
        const std::string bare(absl::StripPrefix(name, kPrefix));
        if (!places_.try_emplace(bare, f, name).second) {
          return absl::InvalidArgumentError(
              absl::StrCat(files_[f].path(), ": ", bare, " is there twice"));
        }
      }
    }
    return absl::OkStatus();
  }

  // Each parameter in its shape, and nothing else but masks and the tied matrix.
  absl::Status CheckTensors() const {
    TESSERA_ASSIGN_OR_RETURN(const Model model, MakeGpt2(config_, DType::kFloat32));
    std::set<std::string> known = {kHead};
    for (const UnitSpec& unit : model.units) {
      for (const ParameterSpec& parameter : unit.parameters) {
        const std::string name = HuggingFaceName(unit, parameter);
        known.insert(name);
        const auto place = places_.find(name);
        if (place == places_.end()) {
          return absl::InvalidArgumentError(absl::StrCat(folder_, ": has no tensor ", name));
        }
        const auto& [file, full_name] = place->second;
        const SafetensorsEntry& entry = files_[file].entries().at(full_name);
        const std::vector<int64_t> shape(parameter.shape.begin(), parameter.shape.end());
        if (entry.shape != shape) {
          return absl::InvalidArgumentError(
              absl::StrCat(files_[file].path(), ": ", full_name, " has the shape [",
                           absl::StrJoin(entry.shape, ", "), "]; expected [",
                           absl::StrJoin(shape, ", "), "] by config.json"));
        }
      }
    }
    for (const auto& [name, place] : places_) {
      const bool mask =
          absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias");
      if (mask || known.count(name) > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(files_[place.first].path(), ": ", name, " is no tensor of this model"));
    }
    return CheckTied();
  }

  absl::StatusOr<std::vector<float>> Read(const std::string& name) const override {
    const auto& [file, full_name] = places_.at(name);
    return files_[file].Read(full_name);
  }

 private:
  absl::Status CheckTied() const {
    if (places_.count(kHead) == 0) return absl::OkStatus();
    TESSERA_ASSIGN_OR_RETURN(const std::vector<float> head, Read(kHead));
    TESSERA_ASSIGN_OR_RETURN(const std::vector<float> embedding, Read(kEmbedding));
    if (head == embedding) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        folder_, ": lm_head.weight differs from wte.weight; only tied embeddings can be read"));
  }

  const std::string folder_;
  const Gpt2Config config_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::pair<size_t, std::string>> places_;  // file and name there
};

}  // namespace

std::string HuggingFaceName(const UnitSpec& unit, const ParameterSpec& parameter) {
  constexpr absl::string_view kBlock = "block.";
  if (!absl::StartsWith(unit.name, kBlock)) return parameter.name;
  return absl::StrCat("h.", unit.name.substr(kBlock.size()), ".", parameter.name);
}

absl::StatusOr<std::unique_ptr<Gpt2Weights>> OpenHuggingFaceGpt2(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/config.json");
  TESSERA_ASSIGN_OR_RETURN(const json text, ReadJson(path));
  TESSERA_ASSIGN_OR_RETURN(const Gpt2Config config, ConfigFrom(path, text));
  auto weights = std::make_unique<HuggingFaceGpt2>(folder, config);
  TESSERA_RETURN_IF_ERROR(weights->OpenFiles());
  TESSERA_RETURN_IF_ERROR(weights->CheckTensors());
  return weights;
}

std::string HuggingFaceConfig(const Gpt2Config& config, DType dtype) {
  nlohmann::ordered_json text = {
      {"model_type", "gpt2"},
      {"architectures", {"GPT2LMHeadModel"}},
      {"n_layer", config.layers},
      {"n_head", config.heads},
      {"n_embd", config.width},
      {"n_positions", config.context},
      {"n_ctx", config.context},
      {"vocab_size", config.vocabulary},
      {"activation_function", "gelu_new"},
      {"layer_norm_epsilon", 1e-5},
      {"embd_pdrop", config.dropout},
      {"attn_pdrop", config.dropout},
      {"resid_pdrop", config.dropout},
      {"tie_word_embeddings", true},
      {"torch_dtype", dtype == DType::kBFloat16 ? "bfloat16" : "float32"},
  };
  return text.dump(2) + "\n";
}

}  // namespace tessera
