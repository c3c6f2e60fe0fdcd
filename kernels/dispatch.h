#ifndef TESSERA_KERNELS_DISPATCH_H_
#define TESSERA_KERNELS_DISPATCH_H_

#include <cstdint>

#include "core/device.h"

namespace tessera::kernels {

// Workspaces are laid out one behind the other.
constexpr int64_t RoundUpToAlignment(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace tessera::kernels

// A public kernel F(lane, ...) runs as kernels::cpu::F or kernels::cuda::F, which
// have its signature, as the lane has it.

// Declares both, for a function of the enclosing namespace tessera::kernels.
#define TESSERA_DECLARE_BACKENDS(function)         \
  namespace cpu {                                  \
  decltype(::tessera::kernels::function) function; \
  }                                                \
  namespace cuda {                                 \
  decltype(::tessera::kernels::function) function; \
  }                                                \
  static_assert(true, "so that a semicolon may follow")

#ifdef TESSERA_CUDA
#define TESSERA_DISPATCH(function, lane, ...)                                              \
  return (lane).backend() == ::tessera::Backend::kCuda ? cuda::function(lane, __VA_ARGS__) \
                                                       : cpu::function(lane, __VA_ARGS__)
#else
#define TESSERA_DISPATCH(function, lane, ...) return cpu::function(lane, __VA_ARGS__)
#endif

#endif  // TESSERA_KERNELS_DISPATCH_H_
