#include "tools/convert_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/atomic_file.h"
#include "core/safetensors.h"
#include "core/status.h"
#include "models/formats/gpt2_weights.h"
#include "sharding/checkpoint/checkpoint_folder.h"
#include "sharding/checkpoint/checkpoint_reader.h"
#include "sharding/checkpoint/load.h"
#include "sharding/checkpoint/shard_file.h"
#include "tools/run_config.h"
#include "tools/run_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

absl::Status CheckFinite(const std::string& path, const std::string& tensor,
                         const std::vector<float>& values) {
  const auto bad =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", tensor, ": element ",
                                                 bad - values.begin(), " is ", *bad,
                                                 "; such a model is of no use"));
}

// What is known of the run, for people.
std::string ModelCard(const Manifest& manifest) {
  std::string text = absl::StrCat(
      "---\nlibrary_name: transformers\n---\n\nA GPT-2 trained with Tessera for ", manifest.step,
      " steps on ", manifest.sequences, " sequences", manifest.data.empty() ? "" : " of ",
      manifest.data, ".\n\n| setting | value |\n|---|---|\n");
  for (const std::string& setting : manifest.settings) {
    const size_t equals = setting.find(" = ");
    absl::StrAppend(&text, "| ", setting.substr(0, equals), " | ", setting.substr(equals + 3),
                    " |\n");
  }
  return text;
}

struct Exported {
  Manifest::Tensor tensor;
  std::string name;
};

absl::Status WriteSafetensors(const CheckpointReader& checkpoint, const Model& model,
                              DType precision, const std::string& path) {
  std::vector<Exported> exported;
  std::vector<SafetensorsEntry> entries;
  for (int u = 0; u < static_cast<int>(model.units.size()); ++u) {
    const UnitSpec& unit = model.units[u];
    for (int p = 0; p < static_cast<int>(unit.parameters.size()); ++p) {
      const ParameterSpec& parameter = unit.parameters[p];
      const std::vector<int64_t> shape(parameter.shape.begin(), parameter.shape.end());
      const std::string name = absl::StrCat("transformer.", HuggingFaceName(unit, parameter));
      exported.push_back({{TensorName(model, Trainer::State::kMaster, u, p), shape}, name});
      entries.push_back({name, precision == DType::kBFloat16 ? "BF16" : "F32", shape,
                         ElementsOf(parameter.shape) * SizeOf(precision)});
    }
  }
  TESSERA_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TESSERA_RETURN_IF_ERROR(file.Append(SafetensorsHeader(entries, {{"format", "pt"}})));
  for (const Exported& one : exported) {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<float> values, checkpoint.ReadTensor(one.tensor));
    TESSERA_RETURN_IF_ERROR(CheckFinite(checkpoint.folder(), one.tensor.name, values));
    if (precision == DType::kFloat32) {
      TESSERA_RETURN_IF_ERROR(file.Append(
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
      continue;
    }
    std::vector<BFloat16> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(),
                   [](float value) { return BFloat16(value); });
    TESSERA_RETURN_IF_ERROR(file.Append(
        {reinterpret_cast<const char*>(rounded.data()), rounded.size() * sizeof(BFloat16)}));
  }
  return file.Commit();
}

absl::StatusOr<std::string> Export(const std::string& from, const std::string& to,
                                   DType precision) {
  TESSERA_ASSIGN_OR_RETURN(const CheckpointReader checkpoint, CheckpointReader::Open(from));
  TESSERA_ASSIGN_OR_RETURN(const RunConfig config, ModelOfSettings(checkpoint.manifest().settings));
  TESSERA_ASSIGN_OR_RETURN(const Model model, MakeModel(config));
  TESSERA_RETURN_IF_ERROR(CheckModel(checkpoint, model));
  std::error_code error;
  const bool made = fs::create_directory(to, error);
  if (error) return FileError(to, "cannot make the folder of a model", error.value());
  if (!made && !fs::is_empty(to, error)) {
    return absl::AlreadyExistsError(absl::StrCat(to, ": is not empty; name a new folder"));
  }
  const auto write = [&]() -> absl::Status {
    TESSERA_RETURN_IF_ERROR(
        WriteSafetensors(checkpoint, model, precision, absl::StrCat(to, "/model.safetensors")));
    TESSERA_RETURN_IF_ERROR(
        WriteFileAtomically(absl::StrCat(to, "/README.md"), ModelCard(checkpoint.manifest())));
    return WriteFileAtomically(absl::StrCat(to, "/config.json"),
                               HuggingFaceConfig(Gpt2ConfigOf(config), precision));
  };
  const absl::Status written = write();
  if (!written.ok()) {
    for (const char* name : {"/model.safetensors", "/README.md"}) fs::remove(to + name, error);
    if (made) fs::remove(to, error);
    return written;
  }
  return absl::StrCat(to, ": the model of ", from, " in ", NameOf(precision),
                      ", for Hugging Face's transformers");
}

absl::StatusOr<std::unique_ptr<Gpt2Weights>> OpenWeights(const std::string& from) {
  std::error_code ignored;
  if (fs::is_directory(from, ignored)) return OpenHuggingFaceGpt2(from);
  return OpenLlmcGpt2(from);
}

absl::StatusOr<Manifest::File> WriteImported(const Gpt2Weights& weights, const Model& model,
                                             const std::string& folder) {
  const std::vector<SavedPart> parts = AllParts(model);
  TESSERA_ASSIGN_OR_RETURN(ShardWriter writer,
                           ShardWriter::Create(folder, model, parts, /*rank=*/0, /*world=*/1));
  for (const SavedPart& part : parts) {
    if (part.state != Trainer::State::kMaster) {
      TESSERA_RETURN_IF_ERROR(writer.Append(std::vector<float>(part.elements)));
      continue;
    }
    const UnitSpec& unit = model.units[part.unit];
    const std::string name = HuggingFaceName(unit, unit.parameters[part.parameter]);
    TESSERA_ASSIGN_OR_RETURN(const std::vector<float> values, weights.Read(name));
    TESSERA_RETURN_IF_ERROR(CheckFinite(weights.path(), name, values));
    TESSERA_RETURN_IF_ERROR(writer.Append(values));
  }
  return writer.Finish();
}

absl::StatusOr<std::string> Import(const std::string& from, const std::string& to) {
  TESSERA_ASSIGN_OR_RETURN(const std::unique_ptr<Gpt2Weights> weights, OpenWeights(from));
  TESSERA_ASSIGN_OR_RETURN(const Model model, MakeGpt2(weights->config(), DType::kFloat32));
  CheckpointFolder folder(to);
  TESSERA_ASSIGN_OR_RETURN(const std::vector<CheckpointFolder::Entry> entries, folder.List());
  if (!entries.empty()) {
    return absl::AlreadyExistsError(
        absl::StrCat(to, ": holds checkpoints; name a folder without any"));
  }
  TESSERA_RETURN_IF_ERROR(folder.Acquire());
  Manifest manifest;
  const Gpt2Config& config = weights->config();
  manifest.settings = {"model.family = gpt2",
                       absl::StrCat("model.layers = ", config.layers),
                       absl::StrCat("model.heads = ", config.heads),
                       absl::StrCat("model.width = ", config.width),
                       absl::StrCat("model.context = ", config.context),
                       absl::StrCat("model.vocabulary = ", config.vocabulary)};
  manifest.tensors = TensorsOf(model);
  TESSERA_ASSIGN_OR_RETURN(const std::string partial, folder.Begin(manifest.step));
  absl::StatusOr<Manifest::File> file = WriteImported(*weights, model, partial);
  if (!file.ok()) {
    folder.Discard(manifest.step);
    return file.status();
  }
  manifest.files = {*std::move(file)};
  TESSERA_ASSIGN_OR_RETURN(const std::string path, folder.Publish(manifest));
  return absl::StrCat(path, ": the model of ", from, ", to begin with (resume: ", path, ")");
}

}  // namespace

absl::StatusOr<std::string> ConvertCheckpoint(const std::string& from, const std::string& to,
                                              DType precision) {
  std::error_code ignored;
  const bool is_checkpoint = fs::exists(fs::path(from) / kManifestName, ignored);
  return is_checkpoint ? Export(from, to, precision) : Import(from, to);
}

}  // namespace tessera
