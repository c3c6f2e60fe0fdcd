#ifndef TESSERA_KERNELS_CUDA_ATTENTION_LAUNCH_H_
#define TESSERA_KERNELS_CUDA_ATTENTION_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"

namespace tessera::kernels::cuda {

// Calls launch(std::integral_constant<int, N>()) for the smallest N of the compiled
// head sizes that holds `head_size`.
template <typename Launch>
absl::Status ForHeadSize(int64_t head_size, const Launch& launch) {
  if (head_size <= 32) return launch(std::integral_constant<int, 32>());
  if (head_size <= 64) return launch(std::integral_constant<int, 64>());
  if (head_size <= 128) return launch(std::integral_constant<int, 128>());
  if (head_size <= 256) return launch(std::integral_constant<int, 256>());
  return absl::UnimplementedError(
      absl::StrCat("attention heads of ", head_size, " channels; on a GPU, 256 are the most"));
}

// A block of threads for each tile of `rows` positions, head and sequence. Tiles of
// one head are neighbours: they read the same keys and values while these are in cache.
inline dim3 GridOf(const AttentionShape& shape, int64_t heads, int64_t rows) {
  return dim3(static_cast<unsigned>((shape.length + rows - 1) / rows), static_cast<unsigned>(heads),
              static_cast<unsigned>(shape.batch));
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_ATTENTION_LAUNCH_H_
