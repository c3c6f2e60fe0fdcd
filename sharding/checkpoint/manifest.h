#ifndef TESSERA_SHARDING_CHECKPOINT_MANIFEST_H_
#define TESSERA_SHARDING_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

inline constexpr char kManifestName[] = "manifest.json";

// What a checkpoint is, as docs/checkpoints.md describes it: where each part of each
// tensor stands, in positions of the whole tensor, which know nothing of ranks.
struct Manifest {
  // An fp32 tensor of the whole model: "master.block.0.attn.c_attn.weight".
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
  };
  // Elements [first, first + elements) of a tensor, from a byte of the file on.
  struct Piece {
    std::string tensor;
    int64_t first = 0;
    int64_t elements = 0;
    int64_t offset = 0;
  };
  struct File {
    std::string name;  // in the checkpoint's folder
    int64_t bytes = 0;
    std::vector<uint64_t> checksums;  // of its chunks (core/checksum.h)
    std::vector<Piece> pieces;        // in the order of their offsets
  };

  int64_t step = 0;                   // steps done
  int64_t sequences = 0;              // of the data's stream, trained on
  std::string plan;                   // the fingerprint of the plan that was run
  int world = 1;                      // ranks that wrote it
  std::vector<std::string> settings;  // "key = value", of the run
  std::string data;                   // tells data sets apart
  std::vector<Tensor> tensors;
  std::vector<File> files;
};

// A rank's part of a manifest, to be sent; and back.
std::string ToText(const Manifest::File& file);
absl::StatusOr<Manifest::File> FileFromText(absl::string_view text);

// The content of the manifest's file. It starts with the checksum of the rest.
std::string ToText(const Manifest& manifest);
// DataLoss if the text is not what ToText made of some manifest; `path` is named.
absl::StatusOr<Manifest> ManifestFromText(const std::string& path, absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_SHARDING_CHECKPOINT_MANIFEST_H_
