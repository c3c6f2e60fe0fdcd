#ifndef TESSERA_TOOLS_TRAIN_MATRIX_RATE_H_
#define TESSERA_TOOLS_TRAIN_MATRIX_RATE_H_

#include "absl/status/statusor.h"
#include "core/device.h"
#include "core/dtype.h"

namespace tessera {

// Floating-point operations per second of a large matrix product on the lane's
// threads: the best of a few. What a training step's rate is compared with.
absl::StatusOr<double> MeasureMatrixRate(Device& device, DType dtype);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_MATRIX_RATE_H_
