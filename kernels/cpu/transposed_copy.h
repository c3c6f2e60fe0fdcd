#ifndef TESSERA_KERNELS_CPU_TRANSPOSED_COPY_H_
#define TESSERA_KERNELS_CPU_TRANSPOSED_COPY_H_

#include <cstdint>

#include "core/dtype.h"

namespace tessera::kernels {

// to[c * rows + r] = from[r * stride + c] for r in [0, rows), c in [0, columns).
void TransposedCopy(const BFloat16* from, int64_t rows, int64_t columns, int64_t stride,
                    BFloat16* to);

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_TRANSPOSED_COPY_H_
