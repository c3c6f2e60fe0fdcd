#include "tests/cuda_on_cpu/bugs/expected.h"
namespace tessera::cuda_on_cpu {
Expected ExpectedOf(const std::string&, Mode) { return {Outcome::kWrong, 0}; }
}  // namespace tessera::cuda_on_cpu
