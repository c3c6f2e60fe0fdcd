#ifndef TESSERA_TESTS_CUDA_ON_CPU_BUGS_EXPECTED_H_
#define TESSERA_TESTS_CUDA_ON_CPU_BUGS_EXPECTED_H_

#include <cstdint>
#include <string>

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
  kCrash,      // a signal
  kSanitizer,  // a report of AddressSanitizer, UndefinedBehaviorSanitizer or ThreadSanitizer
};

// At least that part of the seeds shows the bug, and one or more by this outcome;
// kRight: none can.
struct Expected {
  Outcome outcome;
  int percent;
};
Expected ExpectedOf(const std::string& bug, Mode mode);

}  // namespace tessera::cuda_on_cpu

#endif  // TESSERA_TESTS_CUDA_ON_CPU_BUGS_EXPECTED_H_
