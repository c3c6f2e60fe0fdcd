#ifndef TESSERA_SHARDING_CHECKPOINT_SHARD_FILE_H_
#define TESSERA_SHARDING_CHECKPOINT_SHARD_FILE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "models/module.h"
#include "sharding/checkpoint/manifest.h"
#include "sharding/plan.h"
#include "sharding/trainer.h"

namespace tessera {

// A part of a state that a rank saves: elements [first, first + elements) of a parameter.
struct SavedPart {
  Trainer::State state = Trainer::State::kMaster;
  int unit = 0;
  int parameter = 0;
  int64_t first = 0;
  int64_t elements = 0;
};

// "master.block.0.attn.c_attn.weight"
std::string TensorName(const Model& model, Trainer::State state, int unit, int parameter);

// All that a checkpoint of the model holds: whole parameters, in all states; and as the
// manifest lists it, in the same order.
std::vector<SavedPart> AllParts(const Model& model);
std::vector<Manifest::Tensor> TensorsOf(const Model& model);

// What `rank` saves, in the order in which it stands in its file: of every unit, its shard
// of all three states. Together, the ranks save every element once, at any stage.
std::vector<SavedPart> PartsOf(const Plan& plan, int rank);

// "shard-00002-of-00004.safetensors"
std::string ShardFileName(int rank, int world);

// Writes a file of a checkpoint, which appears whole and durable, or not at all. The errors
// of AtomicFile. Not thread-safe.
class ShardWriter {
 public:
  static absl::StatusOr<ShardWriter> Create(const std::string& folder, const Model& model,
                                            const std::vector<SavedPart>& parts, int rank,
                                            int world);

  // The next values of the parts, one after the other, in fp32.
  absl::Status Append(absl::Span<const float> values);
  // Call once, last, when all have been appended.
  absl::StatusOr<Manifest::File> Finish();

 private:
  ShardWriter(Manifest::File file, AtomicFile out) : file_(std::move(file)), out_(std::move(out)) {}
  absl::Status AppendBytes(absl::string_view bytes);

  Manifest::File file_;
  AtomicFile out_;
  int64_t written_ = 0;
  std::unique_ptr<ChunkChecksums> checksums_ = std::make_unique<ChunkChecksums>();
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_CHECKPOINT_SHARD_FILE_H_
