#ifndef TESSERA_TESTS_CUDA_ON_CPU_CREW_H_
#define TESSERA_TESTS_CUDA_ON_CPU_CREW_H_

#include <functional>
#include <vector>

#include "tests/cuda_on_cpu/fiber.h"

namespace tessera::cuda_on_cpu {

// A fiber for threads of blocks: one after the other, or to ThreadSanitizer, which
// would take the locals of two threads on one stack for a race, one in each block.
struct ThreadFiber {
  ThreadFiber();
  Fiber fiber;
  int first_thread = 0;
};

// Who does a stream's work: a fiber for its operations, and some for the threads of its
// blocks. No two streams have any in common: to ThreadSanitizer what one of them does
// would be ordered with what the other does.
class Crew {
 public:
  // From those that were given back, for ThreadSanitizer has 8128 threads at most, and
  // a process some ten thousands of mappings.
  static Crew& Take();
  // When the stream has nothing more to do.
  static void GiveBack(Crew& crew);

  // Whose work is being done.
  static Crew& Current();

  // Runs `work` on the stream's fiber.
  void Run(const std::function<void()>& work);

  ThreadFiber* TakeThread();
  void ReturnThread(ThreadFiber* fiber);
  void EndBlock();

 private:
  Crew();
  static void Work(void* self);

  Fiber fiber_;
  Fiber* caller_ = nullptr;
  const std::function<void()>* work_ = nullptr;
  std::vector<ThreadFiber*> idle_;
  std::vector<ThreadFiber*> spent_;  // not to be used again in this block
};

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_CREW_H_
