#include "tests/command/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "gtest/gtest.h"

namespace tessera::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kRun[] = R"(seed: 1
precision: fp32
threads: 1
model: {layers: 1, heads: 2, width: 16, context: 8}
data: {train: train.bin, validation: validation.bin}
batch: {global: 12, micro: 1}
optimizer: {learning_rate: 1e-2}
schedule: {steps: 3, warmup_steps: 1}
zero: {stage: 3}
memory: {device: 1GiB, reserve: 4GiB}
)";

std::filesystem::path TestFolder() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::filesystem::path(::testing::TempDir()) / test->test_suite_name() / test->name();
}

// A path in the repository that is data of the test.
std::string Data(const std::string& path) { return std::filesystem::absolute(path); }

// A folder of this process' own, with a path short enough for Unix sockets.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    if (mkdtemp(path_) == nullptr) std::abort();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/command_test.XXXXXX";
};

// Open MPI's settings for many ranks on one host, as tests need them that call
// mpirun themselves, and the sanitizers'.
void SetEnvironment(const std::string& folder, const std::string& temporary) {
  setenv("TMPDIR", temporary.c_str(), 1);
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                           "OMPI_MCA_rmaps_base_oversubscribe"}) {
    setenv(name, "1", 1);
  }
  setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 1);
  setenv("OMPI_MCA_plm", "isolated", 1);
  setenv("OMPI_MCA_pml", "ob1", 1);
  setenv("OMPI_MCA_btl", "self,vader", 1);
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  setenv("OMPI_MCA_btl_vader_backing_directory", folder.c_str(), 1);
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI's plugins leak
  setenv("TSAN_OPTIONS",
         ("print_suppressions=0:suppressions=" + Data("tools/build/tsan.supp")).c_str(), 1);
}

std::vector<pid_t> Children(pid_t process) {
  const std::string id = std::to_string(process);
  std::istringstream words(ReadFile("/proc/" + id + "/task/" + id + "/children"));
  return {std::istream_iterator<pid_t>(words), {}};
}

void FindRanks(pid_t process, std::map<int, pid_t>& ranks) {
  const std::string environment = ReadFile("/proc/" + std::to_string(process) + "/environ");
  for (const char* variable : {"OMPI_COMM_WORLD_RANK=", "TESSERA_RANK="}) {
    const std::string name = std::string(1, '\0') + variable;
    const size_t at = environment.find(name);
    if (at == std::string::npos) continue;
    ranks[std::atoi(environment.c_str() + at + name.size())] = process;
    return;
  }
  for (const pid_t child : Children(process)) FindRanks(child, ranks);
}

}  // namespace

Command::Command(const std::vector<std::string>& arguments, const Options& options)
    : out_(TestFolder() / "stdout"), error_(TestFolder() / "stderr"), start_(Clock::now()) {
  static const std::string program = Data("tools/tessera");
  std::vector<std::string> words;
  // Each sandbox has process ids of its own, from which Open MPI names its session
  // folder: in a common one, concurrent tests overwrite each other's.
  static const TemporaryFolder temporary;
  if (!options.script.empty()) words = {"/bin/sh", "-c", options.script};
  words.push_back(program);
  words.insert(words.end(), arguments.begin(), arguments.end());
  // A run is on the CPU, whatever there is, unless the test says otherwise.
  const bool trains = !arguments.empty() && arguments[0] == "train";
  if (trains && std::find(arguments.begin(), arguments.end(), "--device") == arguments.end()) {
    words.insert(words.end() - std::ssize(arguments) + 1, {"--device", "cpu"});
  }
  process_ = fork();
  if (process_ != 0) return;

  setpgid(0, 0);  // a signal to the command alone, as a script sends it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  SetEnvironment(TestFolder(), temporary.path());
  const auto redirect = [](const std::string& path, int stream) {
    dup2(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), stream);
  };
  redirect(options.out.empty() ? out_.string() : options.out, STDOUT_FILENO);
  redirect(error_, STDERR_FILENO);
  if (chdir((options.folder.empty() ? TestFolder() / "run" : options.folder).c_str()) != 0) {
    _exit(98);
  }
  for (const int stream : options.closed_streams) close(stream);
  if (options.without_mpirun) setenv("PATH", "/nonexistent", 1);
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  _exit(99);
}

Command::~Command() {
  if (process_ <= 0) return;
  Send(SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Command::Send(int signal) const { kill(process_, signal); }

std::map<int, pid_t> Command::Ranks(size_t count) const {
  std::map<int, pid_t> ranks;
  EXPECT_TRUE(Eventually([&] {
    ranks.clear();
    for (const pid_t child : Children(process_)) FindRanks(child, ranks);
    return ranks.size() == count;
  }));
  return ranks;
}

Result Command::Wait() {
  int status = 0;
  const auto deadline = start_ + std::chrono::minutes(2);
  while (waitpid(process_, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "the command does not end";
      Send(SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  process_ = -1;
  const std::chrono::duration<double> seconds = Clock::now() - start_;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), ReadFile(out_),
          ReadFile(error_), seconds.count()};
}

Result RunCommand(const std::vector<std::string>& arguments, const Command::Options& options) {
  return Command(arguments, options).Wait();
}

Workplace::Workplace() : folder_(TestFolder() / "run") {
  std::filesystem::remove_all(TestFolder());
  std::filesystem::create_directories(folder_);
  WriteFile(folder_ / "run.yaml", kRun);
  WriteTokens(folder_ / "train.bin", SomeTokens(2000));
  WriteTokens(folder_ / "validation.bin", SomeTokens(500));
}

Workplace::~Workplace() {
  std::error_code ignored;
  std::filesystem::remove_all(TestFolder(), ignored);
}

std::vector<std::string> Workplace::Files() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void WriteTokens(const std::filesystem::path& path, const std::vector<uint16_t>& tokens,
                 int64_t claimed, int32_t magic) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = 1;
  header[2] = static_cast<int32_t>(claimed < 0 ? static_cast<int64_t>(tokens.size()) : claimed);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(header.data()), 1024);
  file.write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(2 * tokens.size()));
}

std::vector<uint16_t> SomeTokens(int64_t count) {
  std::vector<uint16_t> tokens;
  uint32_t state = 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    tokens.push_back(static_cast<uint16_t>(i % 3 == 0 ? 'a' : 'a' + (state >> 28)));
  }
  return tokens;
}

std::vector<nlohmann::json> ReadMetrics(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(ReadFile(path));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false));
    EXPECT_TRUE(lines.back().is_object()) << line;
  }
  return lines;
}

int CountErrors(const std::string& text) {
  int count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) count += line.rfind("tessera: error", 0) == 0;
  return count;
}

}  // namespace tessera::testing
