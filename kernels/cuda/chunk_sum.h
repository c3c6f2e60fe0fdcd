#ifndef TESSERA_KERNELS_CUDA_CHUNK_SUM_H_
#define TESSERA_KERNELS_CUDA_CHUNK_SUM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "core/tensor.h"

namespace tessera::kernels::cuda {

// out[i] = the sum over chunks c of partial[c * stride + i], for every element of
// out, rounded once to its dtype. Chunks are added in order inside 8 runs of equal
// length, then the runs in order.
absl::Status SumChunks(Lane& lane, const float* partial, int64_t chunks, int64_t stride,
                       const Tensor& out);

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_CHUNK_SUM_H_
