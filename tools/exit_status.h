#ifndef TESSERA_TOOLS_EXIT_STATUS_H_
#define TESSERA_TOOLS_EXIT_STATUS_H_

#include "absl/status/status.h"

namespace tessera {

// The exit statuses that scripts may rely on.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kMisused = 2;  // the command line or the configuration was wrong
inline constexpr int kInterrupted = 130;

// Writes "tessera: error: ..." to standard error, and returns the exit status.
// ReportFailure names the rank, if it is not -1, and is silent where another rank
// has the cause (Cancelled).
int ReportMisuse(const absl::Status& status);
int ReportFailure(const absl::Status& status, int rank);

// For commands whose result is what they print: kDone if all of it was written.
int FinishOutput();

}  // namespace tessera

#endif  // TESSERA_TOOLS_EXIT_STATUS_H_
