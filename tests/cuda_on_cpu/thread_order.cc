#include "tests/cuda_on_cpu/thread_order.h"

#include <array>
#include <map>

#include "tests/cuda_on_cpu/block_scheduler.h"

namespace tessera::cuda_on_cpu {
namespace {

// One that leaves a barrier late must not come after what others did since: they are
// at the next one at most, but other lanes of a warp may be further.
constexpr int kBarriers = 2;
constexpr int kMeetings = 16;

// Addresses that stand for an order.
struct Order {
  char block;
  char barrier[kBarriers];
  char warp[kMaxWarps][kMeetings];
};

// One launch's must not order another's. A ring, for launches that are this far
// apart in time hide no race that nearer ones would not show.
constexpr int kLaunches = 1024;
Order orders[kLaunches];
int launch = 0;

// The threads of one stream's blocks. Each stream has its own: two of its launches
// are ordered, two of different streams' are not.
using Threads = std::array<void*, kMaxThreads>;
Threads* threads = nullptr;
void* stream = nullptr;

Order& Current() { return orders[launch]; }

}  // namespace

void BeginLaunch() {
  if constexpr (!kThreadSanitizer) return;
  launch = (launch + 1) % kLaunches;
}

void BeginThreads(int count) {
  if constexpr (!kThreadSanitizer) return;
  static auto& threads_of_stream = *new std::map<void*, Threads>;
  stream = CurrentTsanThread();
  threads = &threads_of_stream[stream];
  TsanRelease(&Current().block);
  for (int i = 0; i < count; ++i) {
    if ((*threads)[i] == nullptr) (*threads)[i] = CreateTsanThread();
  }
  for (int i = 0; i < count; ++i) {
    SwitchTsanThread((*threads)[i]);
    TsanAcquire(&Current().block);
  }
  SwitchTsanThread(stream);
}

void EndThreads(int count) {
  if constexpr (!kThreadSanitizer) return;
  for (int i = 0; i < count; ++i) {
    SwitchTsanThread((*threads)[i]);
    TsanRelease(&Current().block);
  }
  SwitchTsanThread(stream);
  TsanAcquire(&Current().block);
}

void EnterThread(int thread) {
  if constexpr (kThreadSanitizer) SwitchTsanThread((*threads)[thread]);
}

void ArriveAtBarrier(int barrier) { TsanRelease(&Current().barrier[barrier % kBarriers]); }
void LeaveBarrier(int barrier) { TsanAcquire(&Current().barrier[barrier % kBarriers]); }

void ArriveAtWarpBarrier(int warp, int meeting) {
  TsanRelease(&Current().warp[warp][meeting % kMeetings]);
}
void LeaveWarpBarrier(int warp, int meeting) {
  TsanAcquire(&Current().warp[warp][meeting % kMeetings]);
}

}  // namespace tessera::cuda_on_cpu
