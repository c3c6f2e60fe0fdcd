#include "tests/cuda_on_cpu/runtime/api_call.h"

#include <chrono>

#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/runtime/host_function.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/turns.h"
#include "tests/cuda_on_cpu/runtime/watchdog.h"
#include "tests/cuda_on_cpu/runtime/work.h"

namespace tessera::cuda_on_cpu {
namespace {

// After which a thread that takes no turns concludes that nobody will wake it.
constexpr auto kPatience = std::chrono::seconds(30);

thread_local std::unique_lock<std::mutex>* held_lock = nullptr;

// How much of its work the device does while the program makes calls.
enum class Eagerness : uint8_t { kNone, kBursts, kAll };
Eagerness CurrentEagerness() {
  const uint64_t kind = Seed() / 3 % 8;
  return kind < 4 ? Eagerness::kNone : kind < 7 ? Eagerness::kBursts : Eagerness::kAll;
}

int StepsNow() {
  switch (CurrentEagerness()) {
    case Eagerness::kNone:
      return 0;
    case Eagerness::kBursts:
      return RandomBelow(6) == 0 ? static_cast<int>(RandomBelow(10)) : 0;
    default:
      return 1 << 30;
  }
}

[[noreturn]] void ReportDeadlock(const char* name) {
  Report("%s waits for ever:%s%s", name, DescribeStreams().c_str(), DescribeParticipants().c_str());
}

// Nobody that takes turns can go on, and the device cannot either.
void WaitForAChange(const char* name, std::unique_lock<std::mutex>& lock) {
  if (Self() != nullptr && !SomebodyIsAway()) ReportDeadlock(name);
  const uint64_t version = Version();
  if (TurnHolder() == Self()) TurnHolder() = nullptr;
  const bool changed = StateHasChanged().wait_for(lock, kPatience, [version] {
    return Version() != version || (Self() != nullptr && TurnHolder() == Self());
  });
  if (!changed) ReportDeadlock(name);
  TakeTurn(lock);
}

}  // namespace

ApiCall::ApiCall(const char* name) : lock_(RuntimeMutex()) {
  if (InHostFunction()) Report("a host function calls %s", name);
  StartWatchdog();
  ++Version();
  if (Self() != nullptr) {
    Self()->state = Participant::State::kReady;
    TakeTurn(lock_);
  }
  held_lock = &lock_;
}

ApiCall::~ApiCall() {
  for (int steps = StepsNow(); steps > 0; --steps) {
    const auto startable = StartableStreams();
    if (startable.empty()) break;
    RunOne(startable, lock_);
  }
  CloseDeviceMemory();
  if (Self() != nullptr && RandomBelow(2) == 0) {
    const auto others = RunnableOthers();
    if (!others.empty()) {
      GiveTurn(others[RandomBelow(static_cast<uint32_t>(others.size()))], lock_);
    }
  }
  held_lock = nullptr;
}

void BlockUntil(const std::function<bool()>& condition, const char* name) {
  std::unique_lock<std::mutex>& lock = *held_lock;
  for (;;) {
    const auto startable = StartableStreams();
    if (condition()) return;
    const auto others = RunnableOthers();
    const auto choices = static_cast<uint32_t>(startable.size() + (Self() ? others.size() : 0));
    if (Self() != nullptr) {
      Self()->state = Participant::State::kBlocked;
      Self()->condition = &condition;
      Self()->waits_in = name;
    }
    if (choices == 0) {
      CloseDeviceMemory();
      WaitForAChange(name, lock);
    } else if (const uint32_t choice = RandomBelow(choices); choice < startable.size()) {
      RunOne(startable, lock);
    } else {
      CloseDeviceMemory();
      GiveTurn(others[choice - startable.size()], lock);
    }
    if (Self() != nullptr) Self()->state = Participant::State::kReady;
  }
}

void PollOnce() {
  const auto startable = StartableStreams();
  if (!startable.empty()) RunOne(startable, *held_lock);
}

void StateChanged() {
  ++Version();
  StateHasChanged().notify_all();
}

int& CurrentDevice() {
  thread_local int device = 0;
  return device;
}

cudaError_t& LastError() {
  thread_local cudaError_t error = cudaSuccess;
  return error;
}

cudaError_t Return(cudaError_t error) {
  if (error != cudaSuccess) LastError() = error;
  return error;
}

}  // namespace tessera::cuda_on_cpu
