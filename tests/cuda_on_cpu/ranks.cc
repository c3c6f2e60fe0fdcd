#include "tests/cuda_on_cpu/ranks.h"

#include <mutex>
#include <thread>
#include <vector>

#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/turns.h"
#include "tests/cuda_on_cpu/runtime/watchdog.h"

namespace tessera::cuda_on_cpu {

void RunRanks(int ranks, const std::function<void(int)>& rank) {
  std::vector<Participant> participants(ranks);
  std::vector<std::thread> threads;
  {
    const std::unique_lock lock(RuntimeMutex());
    StartWatchdog();
    for (Participant& participant : participants) Participants().push_back(&participant);
    TurnsAreTaken() = true;
    TurnHolder() = &participants[RandomBelow(static_cast<uint32_t>(ranks))];
  }
  for (int i = 0; i < ranks; ++i) {
    threads.emplace_back([&rank, &participants, i] {
      Self() = &participants[i];
      {
        std::unique_lock lock(RuntimeMutex());
        TakeTurn(lock);
      }
      rank(i);
      std::unique_lock lock(RuntimeMutex());
      participants[i].state = Participant::State::kIdle;
      StateChanged();
      LeaveTurn(lock);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::unique_lock lock(RuntimeMutex());
  for (Participant& participant : participants) std::erase(Participants(), &participant);
  TurnHolder() = nullptr;
  TurnsAreTaken() = false;
}

BlockingSection::BlockingSection() {
  if (Self() == nullptr) return;
  std::unique_lock lock(RuntimeMutex());
  Self()->state = Participant::State::kAway;
  StateChanged();
  LeaveTurn(lock);
}

BlockingSection::~BlockingSection() {
  if (Self() == nullptr) return;
  std::unique_lock lock(RuntimeMutex());
  Self()->state = Participant::State::kReady;
  TakeTurn(lock);
}

}  // namespace tessera::cuda_on_cpu
