#ifndef TESSERA_TESTS_CUDA_ON_CPU_BLOCK_SCHEDULER_H_
#define TESSERA_TESTS_CUDA_ON_CPU_BLOCK_SCHEDULER_H_

#include <vector_types.h>

#include <cstdint>
#include <functional>
#include <string>

// Runs the threads of one block, each on a fiber, one at a time: a thread runs until
// it must wait for others, or ends; which one goes on is drawn from the seed.
namespace tessera::cuda_on_cpu {

inline constexpr int kWarpSize = 32;
inline constexpr int kMaxThreads = 1024;
inline constexpr int kMaxWarps = kMaxThreads / kWarpSize;

// Runs `thread` once for each of a block's threads, with threadIdx its own. Not
// reentrant: one block at a time runs in a process.
void RunThreads(dim3 block, const std::function<void()>& thread);

// What a ThreadFiber does.
void RunThreadFiber(void* fiber);

// Of the running block:
int CurrentThread();
inline int CurrentWarp() { return CurrentThread() / kWarpSize; }
inline int CurrentLane() { return CurrentThread() % kWarpSize; }
int Warps();
int LiveThreads();             // that have not ended
uint32_t LiveLanes(int warp);  // a bit each

// The current thread waits until somebody makes it ready. Reports a deadlock when
// all threads wait.
void WaitUntilReady();
void MakeReady(int warp, uint32_t lanes);
// The current thread, which has been made ready, goes on without a switch.
void GoOn();

// For each way to wait: what to do after the thread that has just ended (it no
// longer counts as live), and who waits there, for the report of a deadlock.
struct WaitingPlace {
  void (*block_begins)();
  void (*thread_ended)(int warp);
  std::string (*describe)(int warp);
};
void AddWaitingPlace(const WaitingPlace& place);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_BLOCK_SCHEDULER_H_
