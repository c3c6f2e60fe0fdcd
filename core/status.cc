#include "core/status.h"

#include <cstdio>
#include <cstdlib>

namespace tessera::internal {

void CheckFailed(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "tessera: bug at %s:%d: %s does not hold (%s); please report it\n", file,
               line, condition, detail.c_str());
  std::abort();
}

}  // namespace tessera::internal
