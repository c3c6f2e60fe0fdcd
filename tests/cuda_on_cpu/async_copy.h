#ifndef TESSERA_TESTS_CUDA_ON_CPU_ASYNC_COPY_H_
#define TESSERA_TESTS_CUDA_ON_CPU_ASYNC_COPY_H_

namespace tessera::cuda_on_cpu {

// cp.async of the current thread: 16 bytes to shared memory, of which the first
// `source_bytes` are read and the rest is zero. It lands at once or, as late as it
// may, in the wait for its group, as drawn from the seed.
void StartCopy(void* destination, const void* source, int source_bytes);
void CommitCopyGroup();
// Until all but the `pending` latest groups have landed.
void WaitForCopyGroups(int pending);

// After a block, whose copies that nobody waited for never land.
void ForgetCopies();

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_ASYNC_COPY_H_
