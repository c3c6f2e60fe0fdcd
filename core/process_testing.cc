#include "core/process_testing.h"

#include <signal.h>

#include <fstream>
#include <sstream>

namespace tessera {

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  // Unlike an iterator, this throws nothing where reading fails.
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool IsAlive(pid_t process) {
  return kill(process, 0) == 0 &&
         ReadFile("/proc/" + std::to_string(process) + "/stat").find(") Z ") == std::string::npos;
}

}  // namespace tessera
