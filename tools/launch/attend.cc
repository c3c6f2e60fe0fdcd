#include "tools/launch/attend.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <string>
#include <utility>

#include "core/status.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// After which time a job is told once more, and is ended once it is broken.
constexpr std::chrono::milliseconds kAskAgain{500};
constexpr std::chrono::milliseconds kEndAgain{5000};
constexpr std::chrono::milliseconds kEndBroken{2000};

// As poll has it.
int MillisecondsUntil(Clock::time_point time) {
  if (time == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return std::max(0, static_cast<int>(left.count()));
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

}  // namespace

absl::StatusOr<Stop> Attend(Job& job) {
  const HeldSignals signals;
  TESSERA_ASSIGN_OR_RETURN(Pipe output_pipe, Pipe::Create());
  TESSERA_ASSIGN_OR_RETURN(Pipe error_pipe, Pipe::Create());
  TESSERA_RETURN_IF_ERROR(
      job.Start({output_pipe.write_end(), error_pipe.write_end(), signals.before()}));
  output_pipe.CloseWriteEnd();
  error_pipe.CloseWriteEnd();

  Relay output(output_pipe.read_end());
  std::array<char, 4096> buffer{};
  const auto read_errors = [&] {
    ssize_t count = 0;
    while ((count = read(error_pipe.read_end(), buffer.data(), buffer.size())) > 0) {
      job.AddErrors(absl::string_view(buffer.data(), static_cast<size_t>(count)));
    }
    return count != 0;  // false at the end of the stream
  };
  Stop stop = Stop::kNo;
  bool broken = false;
  Clock::time_point due = Clock::time_point::max();  // when to tell it again
  const auto tell = [&] {
    const bool asks = stop == Stop::kAsked && !broken;
    asks ? job.Ask() : job.End();
    due = Clock::now() + (asks ? kAskAgain : kEndAgain);
  };
  std::array<pollfd, 3> waiting = {pollfd{signals.descriptor(), POLLIN, 0},
                                   pollfd{error_pipe.read_end(), POLLIN, 0}, pollfd{}};
  while (true) {
    waiting[2] = output.Waiting();
    poll(waiting.data(), waiting.size(), MillisecondsUntil(due));
    if (Clock::now() >= due) tell();
    while (const int signal = signals.Next()) {
      if (signal == SIGCHLD) continue;
      stop = stop == Stop::kNo ? Stop::kAsked : Stop::kForced;
      tell();
    }
    // Before what the other ranks say of it.
    const Job::State state = job.Look();
    if (!read_errors()) waiting[1].fd = -1;
    if (waiting[2].revents != 0) output.Move();
    if (state == Job::State::kEnded) {
      output.Finish();
      read_errors();
      job.FinishErrors();
      return stop;
    }
    if (state == Job::State::kBreaks && !broken) {
      broken = true;
      due = Clock::now() + kEndBroken;
    }
  }
}

void WriteError(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(STDERR_FILENO, text.data(), text.size());
    if (count < 0 && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace tessera
