#include "core/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace tessera {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

int64_t OfMachine() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  while (file >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes << 10;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kUnknown;
}

// A number in a file; "max", or no such file, is unknown.
int64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  return file >> number ? number : kUnknown;
}

int64_t OfControlGroup() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) != 0) continue;
    const std::string folder = "/sys/fs/cgroup" + line.substr(3);
    const int64_t most = NumberIn(folder + "/memory.max");
    const int64_t used = NumberIn(folder + "/memory.current");
    if (most != kUnknown && used != kUnknown) return std::max<int64_t>(most - used, 0);
  }
  return kUnknown;
}

}  // namespace

int64_t AvailableMemory() { return std::min(OfMachine(), OfControlGroup()); }

}  // namespace tessera
