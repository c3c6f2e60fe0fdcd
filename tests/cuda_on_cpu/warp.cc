#include "tests/cuda_on_cpu/warp.h"

#include <bit>
#include <cstdio>
#include <string>

#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/thread_order.h"

namespace tessera::cuda_on_cpu {
namespace {

// What each lane waits for, and with what.
struct Meeting {
  uint32_t waiting = 0;
  uint32_t mask[kWarpSize];
  WarpOperation operation[kWarpSize];
  void* in[kWarpSize];
  void* out[kWarpSize];
  int number[kWarpSize];  // of __syncwarp's
  int last_number = 0;
};

Meeting meetings[kMaxWarps];

// Runs the operations of `warp` for which all live lanes are there.
void Complete(int warp) {
  Meeting& meeting = meetings[warp];
  uint32_t unseen = meeting.waiting;
  while (unseen != 0) {
    const int lane = std::countr_zero(unseen);
    const uint32_t needed = meeting.mask[lane] & LiveLanes(warp);
    unseen &= ~(needed | 1u << lane);
    if ((meeting.waiting & needed) != needed) continue;
    for (uint32_t others = needed; others != 0; others &= others - 1) {
      const int other = std::countr_zero(others);
      if (meeting.mask[other] != meeting.mask[lane] ||
          meeting.operation[other] != meeting.operation[lane]) {
        Report(
            "lanes %d and %d of warp %d meet in different operations of a warp, "
            "with masks %08x and %08x",
            lane, other, warp, meeting.mask[lane], meeting.mask[other]);
      }
    }
    meeting.operation[lane](needed, meeting.in, meeting.out);
    meeting.waiting &= ~needed;
    MakeReady(warp, needed);
  }
}

std::string Describe(int warp) {
  char text[96];
  const uint32_t waiting = meetings[warp].waiting;
  std::snprintf(text, sizeof(text), " lanes %08x in an operation of the warp, for mask %08x;",
                waiting, waiting == 0 ? 0 : meetings[warp].mask[std::countr_zero(waiting)]);
  return text;
}

const bool registered = [] {
  AddWaitingPlace({.block_begins =
                       [] {
                         for (int w = 0; w < Warps(); ++w) meetings[w].waiting = 0;
                       },
                   .thread_ended = &Complete,
                   .describe = &Describe});
  return true;
}();

void Nothing(uint32_t /*mask*/, void* const* /*in*/, void* const* /*out*/) {}

void BallotLanes(uint32_t mask, void* const* in, void* const* out) {
  uint32_t result = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (((mask >> lane) & 1) != 0 && *static_cast<const bool*>(in[lane])) result |= 1u << lane;
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if (((mask >> lane) & 1) != 0) *static_cast<uint32_t*>(out[lane]) = result;
  }
}

}  // namespace

void MeetInWarp(uint32_t mask, WarpOperation operation, const void* in, void* out) {
  const int warp = CurrentWarp();
  const int lane = CurrentLane();
  const uint32_t bit = 1u << lane;
  if ((mask & bit) == 0) Report("lane %d is not in its own mask %08x", lane, mask);
  Meeting& meeting = meetings[warp];
  meeting.mask[lane] = mask;
  meeting.operation[lane] = operation;
  meeting.in[lane] = const_cast<void*>(in);
  meeting.out[lane] = out;
  meeting.waiting |= bit;
  const uint32_t needed = mask & LiveLanes(warp);
  if ((meeting.waiting & needed) == needed) Complete(warp);
  if ((meeting.waiting & bit) == 0) {
    GoOn();
  } else {
    WaitUntilReady();
  }
}

void SyncWarp(uint32_t mask) {
  Meeting& meeting = meetings[CurrentWarp()];
  // The first to come opens a meeting, which those that come with its mask join.
  int number = -1;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const bool waits = (meeting.waiting >> lane & 1) != 0;
    if (waits && meeting.operation[lane] == &Nothing && meeting.mask[lane] == mask) {
      number = meeting.number[lane];
    }
  }
  if (number < 0) number = meeting.last_number++;
  meeting.number[CurrentLane()] = number;
  ArriveAtWarpBarrier(CurrentWarp(), number);
  MeetInWarp(mask, &Nothing, nullptr, nullptr);
  LeaveWarpBarrier(CurrentWarp(), number);
}

uint32_t Ballot(uint32_t mask, bool predicate) {
  uint32_t result = 0;
  MeetInWarp(mask, &BallotLanes, &predicate, &result);
  return result;
}

}  // namespace tessera::cuda_on_cpu
