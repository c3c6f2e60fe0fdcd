#include "tests/cuda_on_cpu/block_scheduler.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "tests/cuda_on_cpu/built_in_variables.h"
#include "tests/cuda_on_cpu/crew.h"
#include "tests/cuda_on_cpu/fiber.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/thread_order.h"

uint3 threadIdx;

namespace tessera::cuda_on_cpu {
namespace {

// How the next thread is chosen, drawn for each block: races hide from some orders.
enum class Policy : uint8_t { kAnyThread, kOneWarpAhead, kLowestLane, kHighestLane };
constexpr uint32_t kPolicies = 4;

struct Warp {
  uint32_t live = 0;
  uint32_t unstarted = 0;
  uint32_t ready = 0;  // has started, and may go on

  uint32_t Runnable() const { return unstarted | ready; }
};

// Plain data: it is used from the fibers of many blocks and host threads, one at a
// time.
Warp warps[kMaxWarps];
ThreadFiber* fiber_of[kMaxThreads];
uint3 index_of[kMaxThreads];
int warp_count = 0;
int live_threads = 0;
uint32_t runnable_warps = 0;
int current_thread = 0;
Policy policy = Policy::kAnyThread;
int warp_ahead = 0;
const std::function<void()>* body = nullptr;
Fiber* stream = nullptr;
Crew* crew = nullptr;

// Filled before main, in whatever order.
std::vector<WaitingPlace>& Places() {
  static auto& places = *new std::vector<WaitingPlace>;
  return places;
}

int AnyBit(uint32_t bits) {
  const int turn = static_cast<int>(RandomBelow(kWarpSize));
  return (std::countr_zero(std::rotr(bits, turn)) + turn) % kWarpSize;
}

struct Choice {
  int thread = -1;  // none can run
  bool starts = false;
};

Choice Choose() {
  if (runnable_warps == 0) return {};
  const bool stay = policy == Policy::kOneWarpAhead && ((runnable_warps >> warp_ahead) & 1) != 0;
  const int w = stay ? warp_ahead : AnyBit(runnable_warps);
  warp_ahead = w;
  Warp& warp = warps[w];
  const uint32_t lanes = warp.Runnable();
  int lane = 0;
  switch (policy) {
    case Policy::kLowestLane:
      lane = std::countr_zero(lanes);
      break;
    case Policy::kHighestLane:
      lane = kWarpSize - 1 - std::countl_zero(lanes);
      break;
    default:
      lane = AnyBit(lanes);
  }
  const uint32_t bit = 1u << lane;
  const bool starts = (warp.unstarted & bit) != 0;
  warp.unstarted &= ~bit;
  warp.ready &= ~bit;
  if (warp.Runnable() == 0) runnable_warps &= ~(1u << w);
  return {.thread = w * kWarpSize + lane, .starts = starts};
}

void ReportDeadlock() {
  std::string text;
  for (int w = 0; w < warp_count; ++w) {
    if (warps[w].live == 0) continue;
    text += "\n  warp " + std::to_string(w) + ":";
    for (const WaitingPlace& place : Places()) text += place.describe(w);
  }
  Report("threads of a block wait for each other for ever:%s", text.c_str());
}

void BecomeThread(int thread) {
  current_thread = thread;
  threadIdx = index_of[thread];
}

// Goes over to `choice`. The fiber that runs is `from`.
void SwitchTo(const Choice& choice, Fiber& from) {
  ThreadFiber* to = nullptr;
  if (choice.starts) {
    to = crew->TakeThread();
    to->first_thread = choice.thread;
    fiber_of[choice.thread] = to;
  } else {
    to = fiber_of[choice.thread];
  }
  BecomeThread(choice.thread);
  Fiber::Switch(from, to->fiber);
}

void RunThread(int thread, ThreadFiber* fiber) {
  fiber_of[thread] = fiber;
  BecomeThread(thread);
  BeginThread();
  (*body)();
  EndThread();
  const int w = CurrentWarp();
  warps[w].live &= ~(1u << CurrentLane());
  --live_threads;
  for (const WaitingPlace& place : Places()) place.thread_ended(w);
}

}  // namespace

// Runs a thread, and then, unless a thread that has already started is to go on, the
// next one.
void RunThreadFiber(void* fiber) {
  auto* const self = static_cast<ThreadFiber*>(fiber);
  for (;;) {
    int thread = self->first_thread;
    for (;;) {
      RunThread(thread, self);
      const Choice next = Choose();
      if (next.thread < 0 && live_threads > 0) ReportDeadlock();
      if (next.thread >= 0 && next.starts && !kThreadSanitizer) {
        thread = next.thread;
        continue;
      }
      crew->ReturnThread(self);
      if (next.thread < 0) {
        Fiber::Switch(self->fiber, *stream);
      } else {
        SwitchTo(next, self->fiber);
      }
      break;  // switched to again, for a new thread
    }
  }
}

void RunThreads(dim3 block, const std::function<void()>& thread) {
  int threads = 0;
  for (unsigned z = 0; z < block.z; ++z) {
    for (unsigned y = 0; y < block.y; ++y) {
      for (unsigned x = 0; x < block.x; ++x) index_of[threads++] = {x, y, z};
    }
  }
  warp_count = (threads + kWarpSize - 1) / kWarpSize;
  live_threads = threads;
  runnable_warps = 0;
  policy = static_cast<Policy>(RandomBelow(kPolicies));
  for (int w = 0; w < warp_count; ++w) {
    const int lanes = std::min(kWarpSize, threads - w * kWarpSize);
    const uint32_t all = lanes == kWarpSize ? ~0u : (1u << lanes) - 1;
    warps[w] = {.live = all, .unstarted = all, .ready = 0};
    runnable_warps |= 1u << w;
  }
  for (const WaitingPlace& place : Places()) place.block_begins();
  crew = &Crew::Current();
  body = &thread;
  Fiber own;
  stream = &own;
  BeginBlock();
  SwitchTo(Choose(), own);
  EndBlock();
  stream = nullptr;
  crew->EndBlock();
}

int CurrentThread() { return current_thread; }
int Warps() { return warp_count; }
int LiveThreads() { return live_threads; }
uint32_t LiveLanes(int warp) { return warps[warp].live; }

void WaitUntilReady() {
  const int self = current_thread;
  const Choice next = Choose();
  if (next.thread < 0) ReportDeadlock();
  if (next.thread != self) SwitchTo(next, fiber_of[self]->fiber);
}

void MakeReady(int warp, uint32_t lanes) {
  if (lanes == 0) return;
  warps[warp].ready |= lanes;
  runnable_warps |= 1u << warp;
}

void GoOn() {
  Warp& warp = warps[CurrentWarp()];
  warp.ready &= ~(1u << CurrentLane());
  if (warp.Runnable() == 0) runnable_warps &= ~(1u << CurrentWarp());
}

void AddWaitingPlace(const WaitingPlace& place) { Places().push_back(place); }

}  // namespace tessera::cuda_on_cpu
