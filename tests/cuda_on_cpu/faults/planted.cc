#include "tests/cuda_on_cpu/faults/planted.h"

#include <cstdlib>

namespace tessera {

int planted_fault = [] {
  const char* text = std::getenv("TESSERA_PLANTED_FAULT");
  return text == nullptr ? 0 : std::atoi(text);
}();

}  // namespace tessera
