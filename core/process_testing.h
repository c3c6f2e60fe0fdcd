#ifndef TESSERA_CORE_PROCESS_TESTING_H_
#define TESSERA_CORE_PROCESS_TESTING_H_

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace tessera {

// A file's bytes; what could be read of it, where it is of a process that ends meanwhile.
std::string ReadFile(const std::filesystem::path& path);

// A zombie that nobody has waited for yet is dead, too.
bool IsAlive(pid_t process);

}  // namespace tessera

#endif  // TESSERA_CORE_PROCESS_TESTING_H_
