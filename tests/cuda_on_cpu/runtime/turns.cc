#include "tests/cuda_on_cpu/runtime/turns.h"

#include <algorithm>
#include <new>

#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/runtime/work.h"

namespace tessera::cuda_on_cpu {
namespace {

Participant* AnyOf(const std::vector<Participant*>& runnable) {
  return runnable[RandomBelow(static_cast<uint32_t>(runnable.size()))];
}

bool CanRun(const Participant& participant) {
  return participant.state == Participant::State::kReady ||
         (participant.state == Participant::State::kBlocked && (*participant.condition)());
}

}  // namespace

std::mutex& RuntimeMutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

std::condition_variable& StateHasChanged() {
  // Never destroyed, for threads use it to the end; and not of the heap, which to
  // ThreadSanitizer would be a write by whoever came first.
  alignas(std::condition_variable) static char storage[sizeof(std::condition_variable)];
  static auto& changed = *new (storage) std::condition_variable;
  return changed;
}

uint64_t& Version() {
  static uint64_t version = 0;
  return version;
}

Participant*& Self() {
  thread_local Participant* self = nullptr;
  return self;
}

std::vector<Participant*>& Participants() {
  static auto& participants = *new std::vector<Participant*>;
  return participants;
}

bool& TurnsAreTaken() {
  static bool taken = false;
  return taken;
}

Participant*& TurnHolder() {
  static Participant* holder = nullptr;
  return holder;
}

std::vector<Participant*> RunnableOthers() {
  std::vector<Participant*> runnable;
  for (Participant* participant : Participants()) {
    if (participant != Self() && CanRun(*participant)) runnable.push_back(participant);
  }
  return runnable;
}

void TakeTurn(std::unique_lock<std::mutex>& lock) {
  if (Self() == nullptr || !TurnsAreTaken()) return;
  StateHasChanged().wait(lock, [] { return TurnHolder() == Self() || TurnHolder() == nullptr; });
  TurnHolder() = Self();
}

void GiveTurn(Participant* other, std::unique_lock<std::mutex>& lock) {
  TurnHolder() = other;
  StateHasChanged().notify_all();
  TakeTurn(lock);
}

void LeaveTurn(std::unique_lock<std::mutex>& lock) {
  if (Self() == nullptr || !TurnsAreTaken() || TurnHolder() != Self()) return;
  for (;;) {
    const auto startable = StartableStreams();
    const auto runnable = RunnableOthers();
    if (!runnable.empty() || startable.empty()) {
      TurnHolder() = runnable.empty() ? nullptr : AnyOf(runnable);
      StateHasChanged().notify_all();
      return;
    }
    RunOne(startable, lock);
  }
}

bool SomebodyIsAway() {
  return std::any_of(Participants().begin(), Participants().end(), [](const auto* participant) {
    return participant->state == Participant::State::kAway;
  });
}

std::string DescribeParticipants() {
  std::string text;
  for (const Participant* participant : Participants()) {
    if (participant->state != Participant::State::kBlocked) continue;
    text += std::string("\n  a rank waits in ") + participant->waits_in;
  }
  return text;
}

}  // namespace tessera::cuda_on_cpu
