#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_TURNS_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_TURNS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

// Which of the program's threads goes on. Ranks take turns (see ranks.h), and with them
// the threads that run host functions; other threads just run. Turns make a schedule
// repeatable, the lock alone makes it safe.
namespace tessera::cuda_on_cpu {

struct Participant {
  enum class State : uint8_t {
    kReady,    // runs, or would if it had the turn
    kBlocked,  // in a call, until the condition holds
    kAway,     // waits for something that the runtime does not know
    kIdle,     // nothing to do
  };
  State state = State::kReady;
  const std::function<bool()>* condition = nullptr;
  const char* waits_in = "";
};

// The lock, and what is notified at every change of state.
std::mutex& RuntimeMutex();
std::condition_variable& StateHasChanged();
// Counts the changes, and the calls.
uint64_t& Version();

// The calling thread, or null if it takes no turns.
Participant*& Self();

// The rest with the lock held.

std::vector<Participant*>& Participants();
// Whether ranks take turns now; without, what follows does nothing.
bool& TurnsAreTaken();
Participant*& TurnHolder();

// Those but the caller that could use the turn.
std::vector<Participant*> RunnableOthers();

// Waits for the turn; at once for a thread that takes none.
void TakeTurn(std::unique_lock<std::mutex>& lock);
// Lets `other` go first; returns with the turn.
void GiveTurn(Participant* other, std::unique_lock<std::mutex>& lock);
// Gives the turn up to whoever can use it, having run the device's work until somebody
// can, or there is none.
void LeaveTurn(std::unique_lock<std::mutex>& lock);

bool SomebodyIsAway();
std::string DescribeParticipants();

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_TURNS_H_
