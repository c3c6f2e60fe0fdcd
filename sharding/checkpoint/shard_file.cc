#include "sharding/checkpoint/shard_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/safetensors.h"
#include "core/status.h"

namespace tessera {
namespace {

using State = Trainer::State;

constexpr int64_t kElement = SizeOf(DType::kFloat32);

absl::string_view NameOf(State state) {
  switch (state) {
    case State::kMaster:
      return "master";
    case State::kMomentum:
      return "momentum";
    case State::kVariance:
      return "variance";
  }
  return "";
}

}  // namespace

std::string TensorName(const Model& model, State state, int unit, int parameter) {
  const UnitSpec& spec = model.units[unit];
  return absl::StrCat(NameOf(state), ".", spec.name, ".", spec.parameters[parameter].name);
}

std::vector<SavedPart> AllParts(const Model& model) {
  std::vector<SavedPart> parts;
  for (const State state : Trainer::kStates) {
    for (int u = 0; u < static_cast<int>(model.units.size()); ++u) {
      const std::vector<ParameterSpec>& parameters = model.units[u].parameters;
      for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
        parts.push_back({state, u, p, 0, ElementsOf(parameters[p].shape)});
      }
    }
  }
  return parts;
}

std::vector<Manifest::Tensor> TensorsOf(const Model& model) {
  std::vector<Manifest::Tensor> tensors;
  for (const auto& [state, unit, parameter, first, elements] : AllParts(model)) {
    const Shape& shape = model.units[unit].parameters[parameter].shape;
    tensors.push_back({TensorName(model, state, unit, parameter), {shape.begin(), shape.end()}});
  }
  return tensors;
}

std::vector<SavedPart> PartsOf(const Plan& plan, int rank) {
  std::vector<SavedPart> parts;
  for (int u = 0; u < static_cast<int>(plan.partitions.size()); ++u) {
    const UnitPartition& partition = plan.partitions[u];
    const int64_t begin = rank * partition.shard;
    for (const State state : Trainer::kStates) {
      for (int p = 0; p < static_cast<int>(partition.sizes.size()); ++p) {
        const int64_t offset = partition.offsets[p];
        const int64_t first = std::max(begin, offset);
        const int64_t end = std::min(begin + partition.shard, offset + partition.sizes[p]);
        if (first < end) parts.push_back({state, u, p, first - offset, end - first});
      }
    }
  }
  return parts;
}

std::string ShardFileName(int rank, int world) {
  return absl::StrFormat("shard-%05d-of-%05d.safetensors", rank, world);
}

absl::StatusOr<ShardWriter> ShardWriter::Create(const std::string& folder, const Model& model,
                                                const std::vector<SavedPart>& parts, int rank,
                                                int world) {
  Manifest::File file;
  file.name = ShardFileName(rank, world);
  std::vector<SafetensorsEntry> entries;
  for (const SavedPart& part : parts) {
    const std::string tensor = TensorName(model, part.state, part.unit, part.parameter);
    entries.push_back({tensor, "F32", {part.elements}, part.elements * kElement});
    file.pieces.push_back({tensor, part.first, part.elements, 0});
  }
  const std::string header = SafetensorsHeader(
      entries, {{"format", absl::StrCat("part of a tessera checkpoint; ", kManifestName,
                                        " says which elements of each tensor are here")}});
  file.bytes = static_cast<int64_t>(header.size());
  for (Manifest::Piece& piece : file.pieces) {
    piece.offset = file.bytes;
    file.bytes += piece.elements * kElement;
  }
  const std::string path = absl::StrCat(folder, "/", file.name);
  TESSERA_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create(path));
  ShardWriter writer(std::move(file), std::move(out));
  TESSERA_RETURN_IF_ERROR(writer.AppendBytes(header));
  return writer;
}

absl::Status ShardWriter::AppendBytes(absl::string_view bytes) {
  checksums_->Append(bytes);
  written_ += static_cast<int64_t>(bytes.size());
  return out_.Append(bytes);
}

absl::Status ShardWriter::Append(absl::Span<const float> values) {
  // So that what is hashed is still in a cache when it is written.
  constexpr size_t kAtOnce = size_t{2} << 20;
  for (size_t at = 0; at < values.size(); at += kAtOnce) {
    const absl::Span<const float> part = values.subspan(at, kAtOnce);
    TESSERA_RETURN_IF_ERROR(
        AppendBytes({reinterpret_cast<const char*>(part.data()), part.size() * kElement}));
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest::File> ShardWriter::Finish() {
  TESSERA_CHECK(written_ == file_.bytes, absl::StrCat(written_, " of ", file_.bytes, " bytes"));
  TESSERA_RETURN_IF_ERROR(out_.Commit());
  file_.checksums = checksums_->Finish();
  return std::move(file_);
}

}  // namespace tessera
