#include "tools/launch/stop_signal.h"

#include <signal.h>

#include <atomic>

namespace tessera {
namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "written by a signal handler");

void RequestStop(int /*signal*/) { stop_requested = true; }

}  // namespace

void CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = RequestStop;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

bool StopRequested() { return stop_requested; }

}  // namespace tessera
