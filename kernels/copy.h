#ifndef TESSERA_KERNELS_COPY_H_
#define TESSERA_KERNELS_COPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"

namespace tessera::kernels {

// Copies `bytes` between memory of the device, of either kind. The ranges do not overlap.
absl::Status Copy(Lane& lane, const std::byte* from, std::byte* to, int64_t bytes);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_COPY_H_
