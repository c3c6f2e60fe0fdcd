#include "tests/cuda_on_cpu/crew.h"

#include "tests/cuda_on_cpu/block_scheduler.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

// The libraries' work is done there too.
constexpr size_t kStreamStackBytes = 8 << 20;
constexpr size_t kThreadStackBytes = 256 << 10;

// Never destroyed, for fibers outlive main.
auto& idle_crews = *new std::vector<Crew*>;
auto& idle_threads = *new std::vector<ThreadFiber*>;
Crew* current = nullptr;

template <typename T>
T* TakeLast(std::vector<T*>& idle) {
  T* last = idle.back();
  idle.pop_back();
  return last;
}

void MoveAll(std::vector<ThreadFiber*>& from, std::vector<ThreadFiber*>& to) {
  to.insert(to.end(), from.begin(), from.end());
  from.clear();
}

}  // namespace

ThreadFiber::ThreadFiber() : fiber(&RunThreadFiber, this, kThreadStackBytes) {}

Crew::Crew() : fiber_(&Work, this, kStreamStackBytes) {}

Crew& Crew::Take() {
  const AsTsanThread as_harness(HarnessTsanThread());
  return *(idle_crews.empty() ? new Crew : TakeLast(idle_crews));
}

void Crew::GiveBack(Crew& crew) {
  const AsTsanThread as_harness(HarnessTsanThread());
  MoveAll(crew.idle_, idle_threads);
  idle_crews.push_back(&crew);
}

Crew& Crew::Current() { return *current; }

void Crew::Run(const std::function<void()>& work) {
  Fiber caller;
  caller_ = &caller;
  work_ = &work;
  current = this;
  Fiber::Switch(caller, fiber_);
  current = nullptr;
}

void Crew::Work(void* self) {
  auto& crew = *static_cast<Crew*>(self);
  for (;;) {
    (*crew.work_)();
    Fiber::Switch(crew.fiber_, *crew.caller_);
  }
}

ThreadFiber* Crew::TakeThread() {
  const AsTsanThread as_harness(HarnessTsanThread());
  if (!idle_.empty()) return TakeLast(idle_);
  return idle_threads.empty() ? new ThreadFiber : TakeLast(idle_threads);
}

void Crew::ReturnThread(ThreadFiber* fiber) {
  const AsTsanThread as_harness(HarnessTsanThread());
  (kThreadSanitizer ? spent_ : idle_).push_back(fiber);
}

void Crew::EndBlock() {
  const AsTsanThread as_harness(HarnessTsanThread());
  MoveAll(spent_, idle_);
}

}  // namespace tessera::cuda_on_cpu
