#include "tests/cuda_on_cpu/shared_memory.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr size_t kArenaBytes = 256 << 10;
constexpr size_t kStaticLimit = 48 << 10;  // of CUDA, for a block's static arrays
constexpr size_t kAlignment = 128;
constexpr size_t kGuardBytes = 128;
constexpr unsigned char kGuard = 0xA5;

struct Array {
  const char* name;
  size_t offset;
  size_t bytes;

  size_t GuardBegin() const { return offset + bytes; }
  size_t GuardEnd() const { return (GuardBegin() + kGuardBytes + kAlignment - 1) & -kAlignment; }
};

unsigned char* arena = nullptr;
auto& arrays = *new std::vector<Array>;
uint64_t block = 0;
size_t used = 0;
size_t static_bytes = 0;

// One for all blocks, which run one after the other. ThreadSanitizer knows no order
// between the blocks of two streams: there, each stream has its own.
unsigned char* ArenaOfStream() {
  static auto& arenas = *new std::map<void*, unsigned char*>;
  void* const stream = CurrentTsanThread();
  unsigned char** own = nullptr;
  {
    const AsTsanThread as_harness(HarnessTsanThread());
    own = &arenas[stream];
  }
  // By the stream, whose blocks come after it.
  if (*own == nullptr) *own = static_cast<unsigned char*>(std::aligned_alloc(1024, kArenaBytes));
  return *own;
}

// Loops, not memset and memcmp: ThreadSanitizer must not take these for accesses of
// the thread that happens to run.
[[gnu::no_sanitize_address]] void Fill(size_t begin, size_t end, unsigned char value) {
  for (volatile unsigned char* p = arena + begin; p != arena + end; ++p) *p = value;
}

[[gnu::no_sanitize_address]] bool Intact(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    if (*static_cast<volatile unsigned char*>(arena + i) != kGuard) return false;
  }
  return true;
}

size_t Add(const char* name, size_t bytes) {
  const Array array{.name = name, .offset = used, .bytes = bytes};
  if (array.GuardEnd() > kArenaBytes) Report("shared memory %s does not fit", name);
  UnpoisonMemory(arena + array.offset, bytes);
  Fill(array.offset, array.GuardBegin(), 0xFF);
  Fill(array.GuardBegin(), array.GuardEnd(), kGuard);
  used = array.GuardEnd();
  const AsTsanThread as_harness(HarnessTsanThread());
  arrays.push_back(array);
  return array.offset;
}

}  // namespace

void BeginSharedMemory(size_t dynamic_bytes) {
  ++block;
  arena = ArenaOfStream();
  PoisonMemory(arena, kArenaBytes);
  arrays.clear();
  static_bytes = 0;
  Fill(0, kGuardBytes, kGuard);
  used = kGuardBytes;
  Add("(dynamic)", dynamic_bytes);
}

void EndSharedMemory() {
  if (!Intact(0, kGuardBytes)) Report("a write before the start of dynamic shared memory");
  for (const Array& array : arrays) {
    if (!Intact(array.GuardBegin(), array.GuardEnd())) {
      Report("a write past the end of shared memory %s, of %zu bytes", array.name, array.bytes);
    }
  }
}

void* DynamicSharedMemory() { return arena + kGuardBytes; }

void* StaticSharedMemory(SharedArray& array, size_t bytes, const char* name) {
  if (array.block != block) {
    static_bytes += bytes;
    if (static_bytes > kStaticLimit) Report("%zu bytes of static shared memory", static_bytes);
    array = {.block = block, .offset = Add(name, bytes)};
  }
  return arena + array.offset;
}

}  // namespace tessera::cuda_on_cpu
