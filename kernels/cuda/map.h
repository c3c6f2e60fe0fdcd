#ifndef TESSERA_KERNELS_CUDA_MAP_H_
#define TESSERA_KERNELS_CUDA_MAP_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "core/device.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"

// Functions of every element by itself.
namespace tessera::kernels::cuda {

inline constexpr int kMapThreads = 256;
inline constexpr int kMapElements = 8;  // of a thread

template <typename Function, typename Out, typename... In>
__global__ void __launch_bounds__(kMapThreads)
    MapKernel(int64_t elements, bool vector, Function function, Out* out, const In*... in) {
  const int64_t first =
      (static_cast<int64_t>(blockIdx.x) * kMapThreads + threadIdx.x) * kMapElements;
  if (first >= elements) return;
  float inputs[sizeof...(In)][kMapElements];
  int input = 0;
  (LoadFloats(in, first, elements, vector, inputs[input++]), ...);
  float outputs[kMapElements];
  function(first, inputs, outputs);
  StoreFloats(outputs, first, elements, vector, out);
}

// For kMapElements elements from the one at `first`, which is a multiple of that,
// function(first, inputs, outputs) makes outputs[i] from inputs[...][i]. out may be
// one of the inputs.
template <typename Function, typename Out, typename... In>
absl::Status Map(Lane& lane, int64_t elements, const Function& function, Out* out, In*... in) {
  const bool vector = IsAligned(out) && (IsAligned(in) && ...);
  return TESSERA_LAUNCH(lane, (MapKernel<Function, Out, In...>),
                        CeilDivide(elements, kMapThreads * kMapElements), kMapThreads, 0, elements,
                        vector, function, out, in...);
}

}  // namespace tessera::kernels::cuda

#endif  // TESSERA_KERNELS_CUDA_MAP_H_
