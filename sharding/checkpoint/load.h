#ifndef TESSERA_SHARDING_CHECKPOINT_LOAD_H_
#define TESSERA_SHARDING_CHECKPOINT_LOAD_H_

#include "absl/status/status.h"
#include "sharding/checkpoint/checkpoint_reader.h"
#include "sharding/trainer.h"

namespace tessera {

// Whether a checkpoint is of this model: FailedPrecondition names the first tensor that
// only one of them has, or that differs in shape.
absl::Status CheckModel(const CheckpointReader& checkpoint, const Model& model);

// Sets a trainer's state, as far as this rank holds it, to a checkpoint's, whatever wrote
// that. After an error the state is of no use, but another checkpoint may be loaded.
absl::Status Load(const CheckpointReader& checkpoint, Trainer& trainer);

}  // namespace tessera

#endif  // TESSERA_SHARDING_CHECKPOINT_LOAD_H_
