#include "tests/cuda_on_cpu/barrier.h"

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/cuda_on_cpu/block_scheduler.h"
#include "tests/cuda_on_cpu/thread_order.h"

namespace tessera::cuda_on_cpu {
namespace {

uint32_t waiting[kMaxWarps];
int arrived = 0;
int opened = 0;
int holding = 0;       // of those that arrived, with a predicate that holds
int last_arrived = 0;  // of the barrier that opened last
int last_holding = 0;

void Open() {
  last_arrived = arrived;
  last_holding = holding;
  arrived = 0;
  holding = 0;
  ++opened;
  for (int w = 0; w < Warps(); ++w) {
    MakeReady(w, waiting[w]);
    waiting[w] = 0;
  }
}

void OpenIfComplete() {
  if (arrived > 0 && arrived == LiveThreads()) Open();
}

void BlockBegins() {
  arrived = 0;
  holding = 0;
  for (int w = 0; w < Warps(); ++w) waiting[w] = 0;
}

std::string Describe(int warp) {
  char text[64];
  std::snprintf(text, sizeof(text), " lanes %08x of %08x at __syncthreads;", waiting[warp],
                LiveLanes(warp));
  return text;
}

void Arrive(bool predicate) {
  const int barrier = opened;
  ArriveAtBarrier(barrier);
  ++arrived;
  holding += predicate ? 1 : 0;
  waiting[CurrentWarp()] |= 1u << CurrentLane();
  OpenIfComplete();
  WaitUntilReady();
  LeaveBarrier(barrier);
}

const bool registered = [] {
  AddWaitingPlace({.block_begins = &BlockBegins,
                   .thread_ended = [](int /*warp*/) { OpenIfComplete(); },
                   .describe = &Describe});
  return true;
}();

}  // namespace

void SyncThreads() { Arrive(false); }

int SyncThreadsCount(bool predicate) {
  Arrive(predicate);
  return last_holding;
}

bool SyncThreadsAnd(bool predicate) {
  Arrive(predicate);
  return last_holding == last_arrived;
}

bool SyncThreadsOr(bool predicate) {
  Arrive(predicate);
  return last_holding > 0;
}

}  // namespace tessera::cuda_on_cpu
