#ifndef TESSERA_TESTS_CUDA_ON_CPU_SANITIZER_HOOKS_H_
#define TESSERA_TESTS_CUDA_ON_CPU_SANITIZER_HOOKS_H_

#include <cstddef>

// What the sanitizers must be told about fibers, memory and order; nothing in a
// build without them. The harness itself is compiled without ThreadSanitizer's
// instrumentation (it is not what is tested), so a macro says that it is on.

#if defined(__SANITIZE_ADDRESS__)
#define TESSERA_CUDA_ON_CPU_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_CUDA_ON_CPU_ASAN 1
#endif
#endif

#ifdef TESSERA_CUDA_ON_CPU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef TESSERA_CUDA_ON_CPU_TSAN
extern "C" {
void* __tsan_create_fiber(unsigned flags);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void* __tsan_get_current_fiber();
void __tsan_acquire(void* address);
void __tsan_release(void* address);
void __tsan_read_range(void* address, unsigned long bytes);
void __tsan_write_range(void* address, unsigned long bytes);
}
#endif

namespace tessera::cuda_on_cpu {

#ifdef TESSERA_CUDA_ON_CPU_ASAN
inline constexpr bool kAddressSanitizer = true;
inline void PoisonMemory(const void* begin, size_t bytes) {
  __asan_poison_memory_region(begin, bytes);
}
inline void UnpoisonMemory(const void* begin, size_t bytes) {
  __asan_unpoison_memory_region(begin, bytes);
}
#else
inline constexpr bool kAddressSanitizer = false;
inline void PoisonMemory(const void* /*begin*/, size_t /*bytes*/) {}
inline void UnpoisonMemory(const void* /*begin*/, size_t /*bytes*/) {}
#endif

// TsanRead and TsanWrite: what the running one does in code that is not instrumented.
//
// What ThreadSanitizer takes for a thread. What one does is unordered with what
// another does, unless it acquires an address that the other released; but a new
// one is ordered after all that its creator did before.
#ifdef TESSERA_CUDA_ON_CPU_TSAN
inline constexpr bool kThreadSanitizer = true;
inline void* CreateTsanThread() { return __tsan_create_fiber(0); }
inline void* CurrentTsanThread() { return __tsan_get_current_fiber(); }
// Flag 1: switching orders nothing.
inline void SwitchTsanThread(void* thread) { __tsan_switch_to_fiber(thread, 1); }
inline void TsanAcquire(void* address) { __tsan_acquire(address); }
inline void TsanRelease(void* address) { __tsan_release(address); }
inline void TsanRead(const void* address, size_t bytes) {
  __tsan_read_range(const_cast<void*>(address), bytes);
}
inline void TsanWrite(void* address, size_t bytes) { __tsan_write_range(address, bytes); }
#else
inline constexpr bool kThreadSanitizer = false;
inline void* CreateTsanThread() { return nullptr; }
inline void* CurrentTsanThread() { return nullptr; }
inline void SwitchTsanThread(void* /*thread*/) {}
inline void TsanAcquire(void* /*address*/) {}
inline void TsanRelease(void* /*address*/) {}
inline void TsanRead(const void* /*address*/, size_t /*bytes*/) {}
inline void TsanWrite(void* /*address*/, size_t /*bytes*/) {}
#endif

// For as long as it lives, what is done is `thread`'s.
class AsTsanThread {
 public:
  explicit AsTsanThread(void* thread) : caller_(CurrentTsanThread()) { SwitchTsanThread(thread); }
  ~AsTsanThread() { SwitchTsanThread(caller_); }

  AsTsanThread(const AsTsanThread&) = delete;
  AsTsanThread& operator=(const AsTsanThread&) = delete;

 private:
  void* caller_;
};

// The harness's own thread: for its use of the heap, which is not the program's.
inline void* HarnessTsanThread() {
  static void* thread = CreateTsanThread();
  return thread;
}

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_SANITIZER_HOOKS_H_
