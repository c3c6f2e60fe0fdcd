#include "kernels/cpu/scratch.h"

#include <array>
#include <new>

namespace tessera::kernels {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Buffer {
  std::byte* bytes = nullptr;
  size_t size = 0;

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { ::operator delete(bytes, kAlignment); }

  void Reserve(size_t wanted) {
    if (wanted <= size) return;
    ::operator delete(bytes, kAlignment);
    bytes = static_cast<std::byte*>(::operator new(wanted, kAlignment));
    size = wanted;
  }
};

}  // namespace

std::byte* ScratchBytes(ScratchUse use, size_t bytes) {
  static thread_local std::array<Buffer, kScratchUses> buffers;
  Buffer& buffer = buffers[static_cast<size_t>(use)];
  buffer.Reserve(bytes);
  return buffer.bytes;
}

}  // namespace tessera::kernels
