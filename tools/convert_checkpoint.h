#ifndef TESSERA_TOOLS_CONVERT_CHECKPOINT_H_
#define TESSERA_TOOLS_CONVERT_CHECKPOINT_H_

#include <string>

#include "absl/status/statusor.h"
#include "core/dtype.h"

namespace tessera {

// A checkpoint to a folder as Hugging Face's `transformers` reads and writes it (config.json,
// model.safetensors in `precision`, README.md); or such a folder, or a model of llm.c, to a
// checkpoint of step 0 in a folder of checkpoints, with moments of 0. What `from` is, is told
// from its content. One tensor is in memory at a time.
//
// Returns a line that tells what was made. InvalidArgument where `from` is none of these, or
// has a value that is not finite; AlreadyExists where there is something at `to`; the
// errors of reading and writing. After an error, nothing new is left at `to`.
absl::StatusOr<std::string> ConvertCheckpoint(const std::string& from, const std::string& to,
                                              DType precision);

}  // namespace tessera

#endif  // TESSERA_TOOLS_CONVERT_CHECKPOINT_H_
