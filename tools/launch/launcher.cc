#include "tools/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/status.h"
#include "tools/launch/mpirun_errors.h"
#include "tools/launch/one_host.h"

namespace tessera {
namespace {

constexpr int kInterrupted = 130;
constexpr int kNotStarted = 127;  // as a shell has it

using Clock = std::chrono::steady_clock;

enum class Stop : uint8_t { kNo, kAsked, kForced };

// After which time mpirun is told once more: while it starts the ranks it loses
// signals.
std::chrono::milliseconds Patience(Stop stop) {
  return std::chrono::milliseconds(stop == Stop::kForced ? 5000 : 500);
}

int MillisecondsUntil(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

absl::Status SystemError(absl::string_view call) {
  return absl::UnavailableError(absl::StrCat(call, ": ", std::strerror(errno)));
}

// Reads from it do not block.
class Pipe {
 public:
  static absl::StatusOr<Pipe> Create() {
    Pipe pipe;
    if (pipe2(pipe.ends_.data(), O_CLOEXEC) != 0) return SystemError("pipe2");
    fcntl(pipe.read_end(), F_SETFL, O_NONBLOCK);
    return pipe;
  }
  Pipe(Pipe&& other) noexcept : ends_(std::exchange(other.ends_, {-1, -1})) {}
  Pipe& operator=(Pipe&&) = delete;
  ~Pipe() {
    CloseWriteEnd();
    if (read_end() >= 0) close(read_end());
  }

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void CloseWriteEnd() {
    if (write_end() >= 0) close(write_end());
    ends_[1] = -1;
  }

 private:
  Pipe() = default;

  std::array<int, 2> ends_ = {-1, -1};
};

void WriteError(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

// Passes on what the ranks write to standard output, while somebody reads it.
class Relay {
 public:
  explicit Relay(int source) : source_(source) {}

  // What to wait for before Move.
  pollfd Waiting() const {
    return pending_.empty() ? pollfd{source_, POLLIN, 0} : pollfd{STDOUT_FILENO, POLLOUT, 0};
  }

  // One read or one write, so that a slow reader does not keep signals waiting.
  void Move() {
    if (!pending_.empty()) return Write();
    std::array<char, PIPE_BUF> buffer{};
    const ssize_t count = read(source_, buffer.data(), buffer.size());
    if (count == 0) source_ = -1;
    if (count > 0 && is_read_) pending_.assign(buffer.data(), static_cast<size_t>(count));
    moved_ = count > 0;
  }

  void Finish() {
    do {
      Move();
    } while (moved_);
  }

 private:
  void Write() {
    const ssize_t count = write(STDOUT_FILENO, pending_.data(), pending_.size());
    moved_ = true;
    if (count >= 0) {
      pending_.erase(0, static_cast<size_t>(count));
    } else if (errno != EINTR && errno != EAGAIN) {
      is_read_ = false;
      pending_.clear();
    }
  }

  int source_;
  bool is_read_ = true;
  bool moved_ = false;
  std::string pending_;
};

// Signals that come as data to read while this lives.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, signal);
    sigprocmask(SIG_BLOCK, &signals, &before_);
    descriptor_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~HeldSignals() {
    close(descriptor_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  int descriptor() const { return descriptor_; }
  const sigset_t& before() const { return before_; }
  // 0 when none has come.
  int Next() const {
    signalfd_siginfo info{};
    return read(descriptor_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo)
                                                                  : 0;
  }

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

// In the child.
[[noreturn]] void BecomeMpirun(std::vector<std::string> words, std::vector<std::string> variables,
                               int output_stream, int error_stream, pid_t parent,
                               const sigset_t& signals) {
  setpgid(0, 0);  // or a Ctrl-C would reach it
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  // From a background group, reading the terminal would stop mpirun.
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(output_stream, STDOUT_FILENO);
  dup2(error_stream, STDERR_FILENO);
  for (std::string& variable : variables) putenv(variable.data());
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kNotStarted);
}

absl::StatusOr<pid_t> StartMpirun(int ranks, const std::vector<std::string>& command,
                                  const OneHost& host, const HeldSignals& signals,
                                  int output_stream, int error_stream) {
  // mpirun ends its ranks when it is asked to end, but not when it is killed.
  std::vector<std::string> words = {"mpirun",  "-np",         absl::StrCat(ranks),
                                    "setpriv", "--pdeathsig", "KILL"};
  words.insert(words.end(), command.begin(), command.end());
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return SystemError("fork");
  if (child == 0) {
    BecomeMpirun(std::move(words), host.variables(), output_stream, error_stream, parent,
                 signals.before());
  }
  return child;
}

// Waits for mpirun to end, and returns its status as waitpid tells it. Sets `stop`
// to what was done to end the ranks.
int Attend(pid_t mpirun, const HeldSignals& signals, Relay output, int error_stream,
           MpirunErrors& errors, Stop& stop) {
  std::array<char, 4096> buffer{};
  const auto read_errors = [&] {
    ssize_t count = 0;
    while ((count = read(error_stream, buffer.data(), buffer.size())) > 0) {
      errors.Add(absl::string_view(buffer.data(), static_cast<size_t>(count)));
    }
    return count != 0;  // false at the end of the stream
  };
  Clock::time_point tell_again;
  std::array<pollfd, 3> waiting = {pollfd{signals.descriptor(), POLLIN, 0},
                                   pollfd{error_stream, POLLIN, 0}, pollfd{}};
  while (true) {
    waiting[2] = output.Waiting();
    poll(waiting.data(), waiting.size(), stop == Stop::kNo ? -1 : MillisecondsUntil(tell_again));
    if (stop != Stop::kNo && Clock::now() >= tell_again) {
      kill(mpirun, stop == Stop::kAsked ? SIGUSR1 : SIGKILL);
      tell_again = Clock::now() + Patience(stop);
    }
    if (!read_errors()) waiting[1].fd = -1;
    if (waiting[2].revents != 0) output.Move();
    while (const int signal = signals.Next()) {
      if (signal == SIGCHLD) continue;
      kill(mpirun, stop == Stop::kNo ? SIGUSR1 : SIGTERM);
      stop = stop == Stop::kNo ? Stop::kAsked : Stop::kForced;
      tell_again = Clock::now() + Patience(stop);
    }
    int status = 0;
    if (waitpid(mpirun, &status, WNOHANG) == mpirun) {
      output.Finish();
      read_errors();
      errors.Finish();
      return status;
    }
  }
}

std::string DescribeKill(const MpirunErrors::KilledRank& killed) {
  const char* name = sigabbrev_np(killed.signal);
  return absl::StrCat("rank ", killed.rank, " was killed by signal ", killed.signal, " (SIG",
                      name != nullptr ? name : "?", "); the other ranks were stopped",
                      killed.signal == SIGKILL
                          ? ". If nobody sent it, the machine may have run out of memory"
                          : "");
}

}  // namespace

absl::StatusOr<int> Launch(int ranks, const std::vector<std::string>& command) {
  const HeldSignals signals;
  TESSERA_ASSIGN_OR_RETURN(const OneHost host, OneHost::Create());
  TESSERA_ASSIGN_OR_RETURN(Pipe output, Pipe::Create());
  TESSERA_ASSIGN_OR_RETURN(Pipe error, Pipe::Create());
  TESSERA_ASSIGN_OR_RETURN(const pid_t mpirun, StartMpirun(ranks, command, host, signals,
                                                           output.write_end(), error.write_end()));
  output.CloseWriteEnd();
  error.CloseWriteEnd();
  MpirunErrors errors(WriteError);
  Stop stop = Stop::kNo;
  const int status =
      Attend(mpirun, signals, Relay(output.read_end()), error.read_end(), errors, stop);

  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const auto killed = errors.killed_rank();
  if (stop == Stop::kForced) return kInterrupted;
  // A process that does not catch it yet ends at once.
  const int signal = killed ? killed->signal : WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (stop == Stop::kAsked && signal == SIGUSR1) return kInterrupted;
  if (!killed && (code == 0 || code == 2 || code == kInterrupted)) return code;
  if (code == kNotStarted && errors.comments().empty()) {
    return absl::NotFoundError(
        "cannot run mpirun: install Open MPI (Debian: apt-get install openmpi-bin), or leave "
        "--ranks out to run alone");
  }
  if (!errors.error_emitted()) {
    const std::string cause =
        killed ? DescribeKill(*killed)
               : absl::StrCat("mpirun ended with status ", code, "\n", errors.comments());
    WriteError(absl::StrCat("tessera: error: ", absl::StripTrailingAsciiWhitespace(cause), "\n"));
  }
  return 1;
}

}  // namespace tessera
