#ifndef TESSERA_TOOLS_LAUNCH_DESCRIBE_KILL_H_
#define TESSERA_TOOLS_LAUNCH_DESCRIBE_KILL_H_

#include <csignal>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace tessera {

// What to tell of a rank that a signal ended.
inline std::string DescribeKill(int rank, int signal) {
  const char* name = sigabbrev_np(signal);
  return absl::StrCat(
      "rank ", rank, " was killed by signal ", signal, " (SIG", name != nullptr ? name : "?",
      "); the other ranks were stopped",
      signal == SIGKILL ? ". If nobody sent it, the machine may have run out of memory" : "");
}

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_DESCRIBE_KILL_H_
