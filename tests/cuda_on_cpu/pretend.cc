#include "tests/cuda_on_cpu/pretend.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda_on_cpu/report.h"

namespace tessera::cuda_on_cpu {
namespace {

constexpr char kVariable[] = "TESSERA_CUDA_ON_CPU";

Pretend FromEnvironment() {
  Pretend pretend;
  const char* text = std::getenv(kVariable);
  while (text != nullptr && *text != '\0') {
    char key[32];
    long long value = 0;
    int length = 0;
    if (std::sscanf(text, "%31[a-z_]=%lld%n", key, &value, &length) != 2) {
      Report("%s: what is %s?", kVariable, text);
    }
    if (std::strcmp(key, "driver") == 0) {
      pretend.driver = static_cast<int>(value);
    } else if (std::strcmp(key, "devices") == 0) {
      pretend.devices = static_cast<int>(value);
    } else if (std::strcmp(key, "memory_mib") == 0) {
      pretend.memory_bytes = value << 20;
    } else if (std::strcmp(key, "architecture") == 0) {
      pretend.architecture = static_cast<int>(value);
    } else {
      Report("%s: there is no %s", kVariable, key);
    }
    text += length;
    if (*text == ',') ++text;
  }
  return pretend;
}

}  // namespace

Pretend& Pretended() {
  static Pretend pretend = FromEnvironment();
  return pretend;
}

}  // namespace tessera::cuda_on_cpu
