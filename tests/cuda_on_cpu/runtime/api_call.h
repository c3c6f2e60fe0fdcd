#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_API_CALL_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_API_CALL_H_

#include <driver_types.h>

#include <functional>
#include <mutex>

namespace tessera::cuda_on_cpu {

// A call of the runtime, or of a library, by the program: every function of theirs has
// one for as long as it runs. It holds the one lock that guards all state of the double
// (what is said of "the lock" below), and the turn, if ranks take turns. Reports a call
// from a host function.
class ApiCall {
 public:
  explicit ApiCall(const char* name);
  // Before the program goes on: maybe runs some of the device's work, and maybe lets
  // another rank go first.
  ~ApiCall();

  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
};

// For these the calling thread is in an ApiCall.

// Runs the device's work, and lets other threads run, until `condition` holds. Reports
// that it never will.
void BlockUntil(const std::function<bool()>& condition, const char* name);

// Runs one operation, if one can be started: a program that asks again and again gets on.
void PollOnce();

// Something that a condition may depend on has changed.
void StateChanged();

// This thread's device; the error that cudaGetLastError is to return.
int& CurrentDevice();
cudaError_t& LastError();
// Remembers it, unless it is a success.
cudaError_t Return(cudaError_t error);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_API_CALL_H_
