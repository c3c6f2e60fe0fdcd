#ifndef TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_WATCHDOG_H_
#define TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_WATCHDOG_H_

namespace tessera::cuda_on_cpu {

// Starts, once, a thread that lets the device go on while the program makes no calls,
// and takes the turn from a rank that waits for something else.
void StartWatchdog();

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_RUNTIME_WATCHDOG_H_
