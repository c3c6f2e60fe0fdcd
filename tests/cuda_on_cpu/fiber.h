#ifndef TESSERA_TESTS_CUDA_ON_CPU_FIBER_H_
#define TESSERA_TESTS_CUDA_ON_CPU_FIBER_H_

#include <cstddef>

#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {

// A call stack that can be left and returned to, in some tens of nanoseconds. To
// ThreadSanitizer it is a thread, so that what lies on a stack belongs to one of its
// threads; switching orders nothing. Only one thread at a time may use fibers; it need
// not always be the same one.
class Fiber {
 public:
  // The stack that the caller runs on.
  Fiber() : tsan_thread_(CurrentTsanThread()) {}
  // A stack of its own, on which `entry(argument)`, which must never return, starts when
  // the fiber is first switched to. It is never given back.
  Fiber(void (*entry)(void*), void* argument, size_t stack_bytes);

  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves `from`, the running fiber, for `to`; returns when somebody switches back.
  static void Switch(Fiber& from, Fiber& to);

 private:
  static void Enter();

  void* stack_pointer_ = nullptr;
  void (*entry_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* tsan_thread_ = nullptr;
  // For AddressSanitizer.
  [[maybe_unused]] const void* stack_bottom_ = nullptr;
  [[maybe_unused]] size_t stack_bytes_ = 0;
};

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_FIBER_H_
