#ifndef TESSERA_TESTS_CUDA_ON_CPU_BARRIER_H_
#define TESSERA_TESTS_CUDA_ON_CPU_BARRIER_H_

namespace tessera::cuda_on_cpu {

// __syncthreads: every live thread of the block comes here.
void SyncThreads();

// As SyncThreads; returns how many threads came with a predicate that holds.
int SyncThreadsCount(bool predicate);
bool SyncThreadsAnd(bool predicate);
bool SyncThreadsOr(bool predicate);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_BARRIER_H_
