#ifndef TESSERA_KERNELS_CPU_SCRATCH_H_
#define TESSERA_KERNELS_CPU_SCRATCH_H_

#include <cstddef>
#include <cstdint>

namespace tessera::kernels {

// Who uses a thread's scratch memory: one buffer each, since they nest.
enum class ScratchUse : uint8_t { kGemm, kCopyingGemm, kWidenedGemm, kAttention };
inline constexpr int kScratchUses = 4;

// At least `bytes`, 64-aligned, undefined, the calling thread's own until it
// asks again for the same use. Kept until the thread ends, so that a warmed-up
// program allocates nothing more.
std::byte* ScratchBytes(ScratchUse use, size_t bytes);

template <typename T>
T* Scratch(ScratchUse use, int64_t elements) {
  return reinterpret_cast<T*>(ScratchBytes(use, static_cast<size_t>(elements) * sizeof(T)));
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_CPU_SCRATCH_H_
