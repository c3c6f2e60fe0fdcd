#ifndef TESSERA_TESTS_CUDA_ON_CPU_THREAD_ORDER_H_
#define TESSERA_TESTS_CUDA_ON_CPU_THREAD_ORDER_H_

#include "tests/cuda_on_cpu/sanitizer_hooks.h"

// What ThreadSanitizer knows about the threads of a block. Each is one of its
// threads; only what is said here orders what two of them do. Nothing without it.
namespace tessera::cuda_on_cpu {

// A launch starts: nothing but streams orders it with other launches.
void BeginLaunch();

// Between these the current stream's threads each begin and end, after all that the
// stream did before, and before all that it does then.
void BeginBlock();
void EndBlock();
void BeginThread();
void EndThread();

// The block's barriers, and meetings of __syncwarp in a warp, by number: what comes
// after a Leave comes after all that preceded each Arrive of that number. Numbers far
// apart may be taken for the same one.
void ArriveAtBarrier(int barrier);
void LeaveBarrier(int barrier);
void ArriveAtWarpBarrier(int warp, int meeting);
void LeaveWarpBarrier(int warp, int meeting);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_THREAD_ORDER_H_
