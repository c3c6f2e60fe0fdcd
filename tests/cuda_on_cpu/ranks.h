#ifndef TESSERA_TESTS_CUDA_ON_CPU_RANKS_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RANKS_H_

#include <functional>

namespace tessera::cuda_on_cpu {

// Runs rank(0) .. rank(ranks - 1), each on a thread of its own, and waits for their
// end. One goes on at a time, and others only where it calls CUDA, cuBLASLt or NCCL, in
// an order drawn from the seed: so what they do repeats. That all of them wait for each
// other for ever is reported at once.
void RunRanks(int ranks, const std::function<void(int)>& rank);

// Round a wait, by a rank or a host function, for another rank outside CUDA and NCCL: a
// lock, a barrier, a collective of the host. Others go on meanwhile. Without one the
// wait still ends, after a tenth of a second, but what others do then depends on time.
// Nothing in a thread that is no rank's.
class BlockingSection {
 public:
  BlockingSection();
  ~BlockingSection();

  BlockingSection(const BlockingSection&) = delete;
  BlockingSection& operator=(const BlockingSection&) = delete;
};

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RANKS_H_
