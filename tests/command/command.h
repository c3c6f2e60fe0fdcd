#ifndef TESSERA_TESTS_COMMAND_COMMAND_H_
#define TESSERA_TESTS_COMMAND_COMMAND_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/process_testing.h"
#include "core/sanitizers.h"
#include "nlohmann/json.hpp"

namespace tessera::testing {

struct Result {
  int status = 0;  // the exit status, or minus the signal that ended it
  std::string out, error;
  double seconds = 0;  // from the start to the end
};

// The `tessera` command as a process, in a folder of its own test. Ends with it.
class Command {
 public:
  struct Options {
    std::filesystem::path folder;     // where it starts; empty for the test's own
    std::string script;               // for a shell, which has the program as $0; empty for the
                                      // program itself
    std::vector<int> closed_streams;  // of 0, 1, 2
    std::string out;                  // where standard output goes; empty for Result::out
    bool without_mpirun = false;      // nothing is in its PATH
  };
  explicit Command(const std::vector<std::string>& arguments) : Command(arguments, Options()) {}
  Command(const std::vector<std::string>& arguments, const Options& options);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command();

  pid_t process() const { return process_; }
  void Send(int signal) const;
  // The processes of its ranks, by rank, once there are `count` of them.
  std::map<int, pid_t> Ranks(size_t count) const;
  // Waits for the end; after two minutes kills it, which fails the test.
  Result Wait();

 private:
  pid_t process_ = -1;
  std::filesystem::path out_, error_;
  std::chrono::steady_clock::time_point start_;
};

Result RunCommand(const std::vector<std::string>& arguments, const Command::Options& options = {});

// A folder that the running test has for itself, with "train.bin", "validation.bin"
// and "run.yaml" in it, a small run (see command.cc) that names them.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path& folder() const { return folder_; }
  // Names of all files, in order.
  std::vector<std::string> Files() const;

 private:
  std::filesystem::path folder_;
};

void WriteFile(const std::filesystem::path& path, const std::string& text);
// A uint16 token file of llm.c whose header tells of `claimed` tokens.
void WriteTokens(const std::filesystem::path& path, const std::vector<uint16_t>& tokens,
                 int64_t claimed = -1, int32_t magic = 20240520);
std::vector<uint16_t> SomeTokens(int64_t count);

// The lines of a metrics file, each parsed.
std::vector<nlohmann::json> ReadMetrics(const std::filesystem::path& path);

// Waits until `condition` holds, for at most a minute.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}
// How often "tessera: error" starts a line.
int CountErrors(const std::string& text);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_COMMAND_COMMAND_H_
