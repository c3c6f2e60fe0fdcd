#ifndef TESSERA_TOOLS_TRAIN_TRAINING_RUN_H_
#define TESSERA_TOOLS_TRAIN_TRAINING_RUN_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/communicator.h"
#include "core/device.h"
#include "tools/run_config.h"

namespace tessera {

// Where a run's output goes; empty for nowhere.
struct RunOutputs {
  std::string metrics;  // JSON lines
  std::string curve;    // SVG picture of the losses
  std::string trace;    // Chrome trace of one step
};

enum class RunEnd : uint8_t { kDone, kStopped };

// One rank's part of a training run, from opening the data to the last line.
// `allowed` settings may differ from those of the checkpoint it goes on from (resume.h).
// Stops at the end of a step, on all ranks, once StopRequested on any of them; where the
// run has a folder for checkpoints, after one of that step.
// Of a failure the rank where it happened gets the cause, the others Cancelled;
// `report` is called with the cause, once and on that rank alone, before the
// others hear of it: they may end at once, and mpirun then ends this rank too.
absl::StatusOr<RunEnd> TrainRun(const RunConfig& config, const std::vector<std::string>& allowed,
                                Backend backend, const RunOutputs& outputs,
                                Communicator& communicator,
                                const std::function<void(const absl::Status&)>& report);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_TRAINING_RUN_H_
