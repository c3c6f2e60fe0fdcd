#ifndef TESSERA_CORE_DATA_BATCH_SOURCE_H_
#define TESSERA_CORE_DATA_BATCH_SOURCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/tensor.h"

namespace tessera {

// Where a run's sequences come from: an endless stream whose content depends on
// the position alone, never on the rank that asks or on what was read before.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Writes sequences [first_sequence, first_sequence + sequences) of the stream
  // into `fields`, in the order and with the shapes of Model::fields, each with
  // the number of sequences in front. Fills every element or fails. May be
  // called by several threads at once, for different `fields`.
  virtual absl::Status Read(int64_t first_sequence, int64_t sequences,
                            absl::Span<const Tensor> fields) = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_DATA_BATCH_SOURCE_H_
