#ifndef TESSERA_TOOLS_TRAIN_RESUME_H_
#define TESSERA_TOOLS_TRAIN_RESUME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/communicator.h"
#include "sharding/trainer.h"
#include "tools/run_config.h"

namespace tessera {

// The settings named in --allow LIST, separated by commas, which may differ from a
// checkpoint's: a key, its last part, a section, or "data". InvalidArgument for a name that
// no checkpoint fixes, and for the model.
absl::StatusOr<std::vector<std::string>> ParseAllowed(const std::vector<std::string>& lists);

// Whether a run can begin as its configuration says, as far as manifests tell: before
// anything is allocated. InvalidArgument names the first setting that differs from the
// checkpoint's, or says why there is no checkpoint to go on from, or why the run's folder
// must not be written.
absl::Status CheckResume(const RunConfig& config, const std::vector<std::string>& allowed);

// Where a run has gone on from.
struct Resumed {
  std::string path;  // empty: it begins
  int64_t step = 0;
  std::vector<std::string> passed_over;  // checkpoints that are newer, and why not
};

// Loads the checkpoint that the configuration names, the newest that is intact for
// `resume: auto`. `data` tells the run's data set. On every rank, in the same order.
// Errors as CheckResume's, on the rank that found them; Cancelled on the others.
absl::StatusOr<Resumed> ResumeRun(const RunConfig& config, const std::vector<std::string>& allowed,
                                  const std::string& data, Trainer& trainer,
                                  Communicator& communicator);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RESUME_H_
