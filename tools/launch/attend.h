#ifndef TESSERA_TOOLS_LAUNCH_ATTEND_H_
#define TESSERA_TOOLS_LAUNCH_ATTEND_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/launch/child.h"

namespace tessera {

// The processes that the launcher starts, and how it deals with them.
class Job {
 public:
  enum class State : uint8_t {
    kRuns,
    kBreaks,  // a rank has failed, without which the others cannot go on
    kEnded,   // nothing of it is left
  };

  virtual ~Job() = default;

  // An error leaves nothing behind.
  virtual absl::Status Start(const ChildSetting& setting) = 0;
  // Asks the ranks to stop; called again while they have not, since a process that
  // is being started may lose it.
  virtual void Ask() = 0;
  // Ends the ranks; called again in the same way.
  virtual void End() = 0;
  virtual State Look() = 0;
  // The next bytes of what it writes to standard error, and their end.
  virtual void AddErrors(absl::string_view bytes) = 0;
  virtual void FinishErrors() = 0;
};

// What was done to a job.
enum class Stop : uint8_t { kNo, kAsked, kForced };

// Starts a job and waits for its end: passes its standard output on, asks it to stop
// at the first SIGINT or SIGTERM, and ends it at the second, or a while after it
// broke. No other thread may run.
absl::StatusOr<Stop> Attend(Job& job);

// To standard error.
void WriteError(absl::string_view text);

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_ATTEND_H_
