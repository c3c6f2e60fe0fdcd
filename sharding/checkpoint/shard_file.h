#ifndef TESSERA_SHARDING_CHECKPOINT_SHARD_FILE_H_
#define TESSERA_SHARDING_CHECKPOINT_SHARD_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// All that a checkpoint of the model holds.
std::vector<Manifest::Tensor> TensorsOf(const Model& model);

// What `rank` saves, in the order in which it stands in its file: of every unit, its shard
// of all three states. Together, the ranks save every element once, at any stage.
std::vector<SavedPart> PartsOf(const Plan& plan, int rank);

// "shard-00002-of-00004.safetensors"
std::string ShardFileName(int rank, int world);

// Writes a rank's file: `values` are its parts, one after the other, in fp32. It appears
// whole and durable, or not at all. The errors of AtomicFile.
absl::StatusOr<Manifest::File> WriteShardFile(const std::string& folder, const Model& model,
                                              const std::vector<SavedPart>& parts, int rank,
                                              int world, absl::string_view values);

}  // namespace tessera

#endif  // TESSERA_SHARDING_CHECKPOINT_SHARD_FILE_H_
