#include "sharding/checkpoint/checkpoint_reader.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/checksum.h"
#include "core/status.h"
#include "sharding/checkpoint/chunk_reader.h"

namespace tessera {
namespace {

constexpr int64_t kElement = sizeof(float);

int64_t ElementsOf(const Manifest::Tensor& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape) elements *= extent;
  return elements;
}

// That what a manifest says of its files fits together: it is what a program wrote, but
// perhaps not this one.
absl::Status CheckFile(const std::string& path, const Manifest::File& file) {
  const auto inconsistent = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path, ": ", file.name, ": ", what));
  };
  const int64_t chunks = (file.bytes + ChunkChecksums::kChunk - 1) / ChunkChecksums::kChunk;
  if (file.bytes < 0 || chunks != static_cast<int64_t>(file.checksums.size())) {
    return inconsistent(
        absl::StrCat(file.bytes, " bytes and ", file.checksums.size(), " checksums of chunks"));
  }
  if (file.name.empty() || file.name.find('/') != std::string::npos) {
    return inconsistent("no name of a file in the checkpoint's folder");
  }
  int64_t end = 0;
  for (const Manifest::Piece& piece : file.pieces) {
    const bool inside = piece.offset >= end && piece.elements >= 0 && piece.first >= 0 &&
                        piece.offset <= file.bytes &&
                        piece.elements <= (file.bytes - piece.offset) / kElement;
    if (!inside) return inconsistent(absl::StrCat(piece.tensor, " at offset ", piece.offset));
    end = piece.offset + piece.elements * kElement;
  }
  return absl::OkStatus();
}

// That the pieces are, together, every element of every tensor, once.
absl::Status CheckWhole(const std::string& path, const Manifest& manifest) {
  std::map<std::string, std::vector<CheckpointReader::Range>> parts;
  for (const Manifest::File& file : manifest.files) {
    TESSERA_RETURN_IF_ERROR(CheckFile(path, file));
    for (const Manifest::Piece& piece : file.pieces) {
      parts[piece.tensor].push_back({piece.first, piece.first + piece.elements});
    }
  }
  for (const Manifest::Tensor& tensor : manifest.tensors) {
    std::vector<CheckpointReader::Range>& ranges = parts[tensor.name];
    std::sort(ranges.begin(), ranges.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    int64_t at = 0;
    for (const auto& range : ranges) {
      if (range.first != at) break;
      at = range.end;
    }
    if (at != ElementsOf(tensor)) {
      return absl::DataLossError(
          absl::StrCat(path, ": no file has element ", at, " of ", tensor.name));
    }
  }
  if (parts.size() > manifest.tensors.size()) {
    return absl::DataLossError(absl::StrCat(path, ": a file has a tensor that no model has"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointReader> CheckpointReader::Open(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kManifestName);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot open the manifest of a checkpoint; ",
                     "give the folder of one, such as runs/a/step-00000200"));
  }
  std::ostringstream text;
  text << file.rdbuf();
  TESSERA_ASSIGN_OR_RETURN(Manifest manifest, ManifestFromText(path, text.str()));
  TESSERA_RETURN_IF_ERROR(CheckWhole(path, manifest));
  for (const Manifest::File& shard : manifest.files) {
    TESSERA_RETURN_IF_ERROR(ChunkReader::Open(folder, shard).status());
  }
  return CheckpointReader(folder, std::move(manifest));
}

absl::Status CheckpointReader::Read(const Wanted& wanted, const Take& take) const {
  constexpr int64_t kAtOnce = ChunkChecksums::kChunk;  // elements
  std::vector<float> values;
  for (const Manifest::File& file : manifest_.files) {
    TESSERA_ASSIGN_OR_RETURN(ChunkReader reader, ChunkReader::Open(folder_, file));
    for (const Manifest::Piece& piece : file.pieces) {
      const Range range = wanted(piece.tensor);
      const int64_t first = std::max(piece.first, range.first);
      const int64_t end = std::min(piece.first + piece.elements, range.end);
      for (int64_t at = first; at < end; at += kAtOnce) {
        values.resize(std::min(kAtOnce, end - at));
        TESSERA_RETURN_IF_ERROR(reader.Read(piece.offset + (at - piece.first) * kElement,
                                            static_cast<int64_t>(values.size()) * kElement,
                                            values.data()));
        TESSERA_RETURN_IF_ERROR(take(piece.tensor, at, values));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> CheckpointReader::ReadTensor(
    const Manifest::Tensor& tensor) const {
  std::vector<float> values(ElementsOf(tensor));
  TESSERA_RETURN_IF_ERROR(Read(
      [&](const std::string& name) {
        return name == tensor.name ? Range{0, static_cast<int64_t>(values.size())} : Range{};
      },
      [&](const std::string&, int64_t first, absl::Span<const float> part) {
        std::copy(part.begin(), part.end(), values.begin() + first);
        return absl::OkStatus();
      }));
  return values;
}

absl::Status CheckpointReader::Verify() const {
  for (const Manifest::File& file : manifest_.files) {
    TESSERA_ASSIGN_OR_RETURN(ChunkReader reader, ChunkReader::Open(folder_, file));
    for (int64_t chunk = 0; chunk < reader.chunks(); ++chunk) {
      TESSERA_RETURN_IF_ERROR(reader.Load(chunk));
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
