#ifndef TESSERA_TESTS_CUDA_ON_CPU_BUGS_EXPECTED_H_
#define TESSERA_TESTS_CUDA_ON_CPU_BUGS_EXPECTED_H_

#include <sys/wait.h>

#include <cstdint>
#include <string>

#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {

// How the harness is built.
enum class Mode : uint8_t { kPlain, kAddress, kThread };

constexpr Mode CurrentMode() {
  return kThreadSanitizer ? Mode::kThread : kAddressSanitizer ? Mode::kAddress : Mode::kPlain;
}

// What a run of a program shows.
enum class Outcome : uint8_t {
  kRight,      // nothing
  kWrong,      // a wrong result
  kReport,     // a report of the harness
  kCrash,      // a signal: an address that is not mapped, or not aligned
  kSanitizer,  // a report of AddressSanitizer, UndefinedBehaviorSanitizer or ThreadSanitizer
};

// Of a process that ended with this status, as waitpid tells it, and would have exited
// with `wrong` for a wrong result.
inline Outcome OutcomeOf(int status, int wrong) {
  if (!WIFEXITED(status)) return Outcome::kCrash;
  const int code = WEXITSTATUS(status);
  return code == 0               ? Outcome::kRight
         : code == wrong         ? Outcome::kWrong
         : code == kReportStatus ? Outcome::kReport
                                 : Outcome::kSanitizer;
}

// At least that part of the seeds shows the bug, and one or more by this outcome;
// kRight: none can.
struct Expected {
  Outcome outcome;
  int percent;
};
Expected ExpectedOf(const std::string& bug, Mode mode);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_BUGS_EXPECTED_H_
