#include "sharding/checkpoint/load.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/status.h"
#include "sharding/checkpoint/shard_file.h"

namespace tessera {
namespace {

std::string Describe(const Manifest::Tensor& tensor) {
  return absl::StrCat(tensor.name, " [", absl::StrJoin(tensor.shape, ", "), "]");
}

}  // namespace

absl::Status CheckModel(const CheckpointReader& checkpoint, const Model& model) {
  const std::vector<Manifest::Tensor> ours = TensorsOf(model);
  const std::vector<Manifest::Tensor>& theirs = checkpoint.manifest().tensors;
  for (size_t t = 0; t < std::max(ours.size(), theirs.size()); ++t) {
    const std::string here = t < ours.size() ? Describe(ours[t]) : "nothing more";
    const std::string there = t < theirs.size() ? Describe(theirs[t]) : "nothing more";
    if (here == there) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.folder(), ": the checkpoint is of another model: it has ", there,
                     " where this one has ", here, "; resume it with its own model"));
  }
  return absl::OkStatus();
}

absl::Status Load(const CheckpointReader& checkpoint, Trainer& trainer) {
  const Model& model = trainer.model();
  TESSERA_RETURN_IF_ERROR(CheckModel(checkpoint, model));
  std::map<std::string, SavedPart> targets;
  for (const SavedPart& part : AllParts(model)) {
    targets[TensorName(model, part.state, part.unit, part.parameter)] = part;
  }
  TESSERA_RETURN_IF_ERROR(checkpoint.Read(
      [&](const std::string& tensor) -> CheckpointReader::Range {
        const SavedPart& target = targets.at(tensor);
        const ElementRange held = trainer.Held(target.state, target.unit, target.parameter);
        return {held.begin, held.end};
      },
      [&](const std::string& tensor, int64_t first, absl::Span<const float> values) {
        const SavedPart& target = targets.at(tensor);
        return trainer.Write(target.state, target.unit, target.parameter, first, values);
      }));
  trainer.ResumeAfter(checkpoint.manifest().step);
  return absl::OkStatus();
}

}  // namespace tessera
