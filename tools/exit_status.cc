#include "tools/exit_status.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// In one write, so that the lines of several ranks do not mix.
void WriteError(const std::string& text) {
  const std::string line = absl::StrCat("tessera: error: ", text, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

int ReportMisuse(const absl::Status& status) {
  WriteError(std::string(status.message()));
  return kMisused;
}

int ReportFailure(const absl::Status& status, int rank) {
  if (absl::IsCancelled(status)) return kFailed;
  WriteError(rank < 0 ? std::string(status.message())
                      : absl::StrCat("rank ", rank, ": ", status.message()));
  return kFailed;
}

int FinishOutput() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return kDone;
  return ReportFailure(absl::UnavailableError("cannot write all of standard output"), /*rank=*/-1);
}

}  // namespace tessera
