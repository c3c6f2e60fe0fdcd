#include "tests/cuda_on_cpu/report.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "tests/cuda_on_cpu/random.h"

namespace tessera::cuda_on_cpu {
namespace {

const char* running = nullptr;

}  // namespace

void SetRunning(const char* kernel) { running = kernel; }

void Report(const char* format, ...) {
  std::fprintf(stderr, "CUDA on CPU, seed %llu", static_cast<unsigned long long>(Seed()));
  if (running != nullptr) std::fprintf(stderr, ", in %s", running);
  std::fputs(": ", stderr);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::fflush(stderr);
  // Not _exit, in which the sanitizers would have a say.
  syscall(SYS_exit_group, kReportStatus);
  __builtin_unreachable();
}

}  // namespace tessera::cuda_on_cpu
