#include "tests/cuda_on_cpu/runtime/watchdog.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/turns.h"
#include "tests/cuda_on_cpu/runtime/work.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr auto kPeriod = std::chrono::milliseconds(10);
// Periods without any call, after which the program's threads count as waiting.
constexpr int kQuietPeriods = 10;

[[noreturn]] void Watch() {
  uint64_t seen = 0;
  int quiet = 0;
  for (;;) {
    std::this_thread::sleep_for(kPeriod);
    std::unique_lock lock(RuntimeMutex());
    if (Version() != seen) {
      seen = Version();
      quiet = 0;
      continue;
    }
    if (++quiet < kQuietPeriods) continue;
    for (auto startable = StartableStreams(); !startable.empty(); startable = StartableStreams()) {
      RunOne(startable, lock);
      seen = Version();
    }
    CloseDeviceMemory();
    if (!TurnsAreTaken()) continue;
    Participant*& holder = TurnHolder();
    const auto runnable = RunnableOthers();
    for (Participant* other : runnable) {
      if (other == holder) continue;
      if (holder != nullptr) holder->state = Participant::State::kAway;
      holder = other;
      StateHasChanged().notify_all();
      break;
    }
  }
}

}  // namespace

void StartWatchdog() {
  static bool started = false;
  if (started) return;
  started = true;
  std::thread(&Watch).detach();
}

}  // namespace tessera::cuda_on_cpu
