#ifndef TESSERA_TOOLS_LAUNCH_CHILD_H_
#define TESSERA_TOOLS_LAUNCH_CHILD_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// With what a child ends whose program cannot be run, as a shell has it.
inline constexpr int kNotStarted = 127;

// What all children of the launcher have in common.
struct ChildSetting {
  int output = -1;     // for its standard output
  int error = -1;      // for its standard error
  sigset_t blocked{};  // signals
};

// A program to run as a child, found in PATH.
struct Child {
  std::vector<std::string> words;      // its name and arguments
  std::vector<std::string> variables;  // NAME=value, added to the environment
  int death_signal = 0;                // what it gets when the launcher ends
  int kept_descriptor = -1;            // stays open
};

// Starts it in a process group of its own, where a Ctrl-C does not reach it, with
// nothing to read. No other thread may run.
absl::StatusOr<pid_t> StartChild(const Child& child, const ChildSetting& setting);

// Unavailable("call: why"), of errno.
absl::Status SystemError(absl::string_view call);

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_CHILD_H_
