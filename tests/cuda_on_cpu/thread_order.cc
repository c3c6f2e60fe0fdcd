#include "tests/cuda_on_cpu/thread_order.h"

#include "tests/cuda_on_cpu/block_scheduler.h"

namespace tessera::cuda_on_cpu {
namespace {

// One that leaves a barrier late must not come after what others did since: they are
// at the next one at most, but other lanes of a warp may be further.
constexpr int kBarriers = 2;
constexpr int kMeetings = 16;

// Addresses that stand for an order.
struct Order {
  char begun;
  char ended;
  char barrier[kBarriers];
  char warp[kMaxWarps][kMeetings];
};

// One launch's must not order another's. A ring, for launches that are this far
// apart in time hide no race that nearer ones would not show.
constexpr int kLaunches = 1024;
Order orders[kLaunches];
int launch = 0;

Order& Current() { return orders[launch]; }

}  // namespace

void BeginLaunch() {
  if constexpr (!kThreadSanitizer) return;
  launch = (launch + 1) % kLaunches;
}

void BeginBlock() { TsanRelease(&Current().begun); }
void EndBlock() { TsanAcquire(&Current().ended); }
void BeginThread() { TsanAcquire(&Current().begun); }
void EndThread() { TsanRelease(&Current().ended); }

void ArriveAtBarrier(int barrier) { TsanRelease(&Current().barrier[barrier % kBarriers]); }
void LeaveBarrier(int barrier) { TsanAcquire(&Current().barrier[barrier % kBarriers]); }

void ArriveAtWarpBarrier(int warp, int meeting) {
  TsanRelease(&Current().warp[warp][meeting % kMeetings]);
}
void LeaveWarpBarrier(int warp, int meeting) {
  TsanAcquire(&Current().warp[warp][meeting % kMeetings]);
}

}  // namespace tessera::cuda_on_cpu
