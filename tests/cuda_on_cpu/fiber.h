#ifndef TESSERA_TESTS_CUDA_ON_CPU_FIBER_H_
#define TESSERA_TESTS_CUDA_ON_CPU_FIBER_H_

#include <cstddef>

namespace tessera::cuda_on_cpu {

// A call stack that can be left and returned to, in some tens of nanoseconds. Only
// one thread at a time may use fibers; it need not always be the same one.
class Fiber {
 public:
  // The stack that the thread came with.
  Fiber() = default;
  // A stack of its own, on which `entry`, which must never return, starts when the
  // fiber is first switched to. It is never given back.
  explicit Fiber(void (*entry)());

  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves `from`, the running fiber, for `to`; returns when somebody switches back.
  static void Switch(Fiber& from, Fiber& to);

 private:
  static void Enter();

  void* stack_pointer_ = nullptr;
  void (*entry_)() = nullptr;
  // For AddressSanitizer.
  [[maybe_unused]] const void* stack_bottom_ = nullptr;
  [[maybe_unused]] size_t stack_bytes_ = 0;
};

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_FIBER_H_
