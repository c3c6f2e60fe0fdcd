#ifndef TESSERA_TESTS_CUDA_ON_CPU_REPORT_H_
#define TESSERA_TESTS_CUDA_ON_CPU_REPORT_H_

namespace tessera::cuda_on_cpu {

// The process's exit status after a report.
inline constexpr int kReportStatus = 42;

// Ends the process: the program does what CUDA forbids, or leaves undefined, or
// would wait for ever. Takes printf's arguments; the message names the kernel that
// runs, if one does, and the seed.
[[noreturn, gnu::format(printf, 1, 2)]] void Report(const char* format, ...);

// What later reports name as running; null for nothing.
void SetRunning(const char* kernel);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_REPORT_H_
