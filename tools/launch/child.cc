#include "tools/launch/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

[[noreturn]] void Become(Child child, const ChildSetting& setting, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, child.death_signal);
  if (getppid() != parent) _exit(1);
  sigprocmask(SIG_SETMASK, &setting.blocked, nullptr);
  // From a background group, reading the terminal would stop it.
  dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  dup2(setting.output, STDOUT_FILENO);
  dup2(setting.error, STDERR_FILENO);
  if (child.kept_descriptor >= 0) fcntl(child.kept_descriptor, F_SETFD, 0);
  for (std::string& variable : child.variables) putenv(variable.data());
  std::vector<char*> arguments;
  arguments.reserve(child.words.size() + 1);
  for (std::string& word : child.words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(kNotStarted);
}

}  // namespace

absl::StatusOr<pid_t> StartChild(const Child& child, const ChildSetting& setting) {
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process < 0) return SystemError("fork");
  if (process == 0) Become(child, setting, parent);
  return process;
}

absl::Status SystemError(absl::string_view call) {
  return absl::UnavailableError(absl::StrCat(call, ": ", std::strerror(errno)));
}

}  // namespace tessera
