#ifndef TESSERA_MODELS_FORMATS_GPT2_WEIGHTS_H_
#define TESSERA_MODELS_FORMATS_GPT2_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/gpt2.h"
#include "models/module.h"

namespace tessera {

// A GPT-2's weights as some format keeps them.
class Gpt2Weights {
 public:
  virtual ~Gpt2Weights() = default;

  virtual const Gpt2Config& config() const = 0;  // its sizes; no dropout
  virtual std::string path() const = 0;

  // The values of a parameter, by Hugging Face's name without prefix
  // ("h.0.attn.c_attn.weight"), in the layout of MakeGpt2. One tensor is in memory at a
  // time.
  virtual absl::StatusOr<std::vector<float>> Read(const std::string& name) const = 0;
};

// Hugging Face's name of a parameter of MakeGpt2's model.
std::string HuggingFaceName(const UnitSpec& unit, const ParameterSpec& parameter);

// A folder with config.json and model.safetensors, or files of an index; and a file of
// llm.c (`model.bin`). NotFound, InvalidArgument with path and offset or key, for what is
// none, is damaged, or is a model that MakeGpt2 does not make.
absl::StatusOr<std::unique_ptr<Gpt2Weights>> OpenHuggingFaceGpt2(const std::string& folder);
absl::StatusOr<std::unique_ptr<Gpt2Weights>> OpenLlmcGpt2(const std::string& path);

// The content of config.json for a model of these sizes, kept in `dtype`.
std::string HuggingFaceConfig(const Gpt2Config& config, DType dtype);

}  // namespace tessera

#endif  // TESSERA_MODELS_FORMATS_GPT2_WEIGHTS_H_
