#include "tests/cuda_on_cpu/runtime/host_function.h"

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "tests/cuda_on_cpu/runtime/api_call.h"
#include "tests/cuda_on_cpu/runtime/memory.h"
#include "tests/cuda_on_cpu/runtime/turns.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

// What a function that waits for nobody needs at most. Until then whoever started it
// waits for its end, so that a program of one thread behaves the same each time.
constexpr auto kUsualTime = std::chrono::milliseconds(20);

thread_local bool in_host_function = false;

struct Job {
  std::function<void()> run;
  Token order;
};

// One device's thread. Takes turns where ranks do.
class Worker {
 public:
  Worker() {
    participant_.state = Participant::State::kIdle;
    Participants().push_back(&participant_);
    std::thread([this] { Run(); }).detach();
  }

  void Add(Job job) {
    jobs_.push_back(std::move(job));
    participant_.state = Participant::State::kReady;
    StateChanged();
  }

 private:
  [[noreturn]] void Run() {
    Self() = &participant_;
    std::unique_lock lock(RuntimeMutex());
    for (;;) {
      StateHasChanged().wait(lock, [this] { return !jobs_.empty(); });
      TakeTurn(lock);
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      CloseDeviceMemory();
      lock.unlock();
      in_host_function = true;
      TsanAcquire(job.order.get());
      job.run();
      job.run = nullptr;
      TsanRelease(job.order.get());
      in_host_function = false;
      lock.lock();
      if (participant_.state == Participant::State::kAway) {
        participant_.state = Participant::State::kReady;
        TakeTurn(lock);
      }
      if (jobs_.empty()) participant_.state = Participant::State::kIdle;
      StateChanged();
      LeaveTurn(lock);
    }
  }

  Participant participant_;
  std::deque<Job> jobs_;
};

}  // namespace

void StartHostFunction(const std::shared_ptr<Stream>& stream, std::unique_lock<std::mutex>& lock) {
  static auto& workers = *new std::map<int, std::unique_ptr<Worker>>;
  auto& worker = workers[stream->device];
  if (worker == nullptr) worker = std::make_unique<Worker>();
  Operation& operation = stream->queue.front();
  const auto done = operation.done;
  worker->Add({.run = std::move(operation.run), .order = operation.elsewhere});
  operation.run = nullptr;
  // Ranks give their turn to the worker instead.
  if (!TurnsAreTaken()) StateHasChanged().wait_for(lock, kUsualTime, done);
}

bool InHostFunction() { return in_host_function; }

}  // namespace tessera::cuda_on_cpu
