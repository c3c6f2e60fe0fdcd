#ifndef TESSERA_TOOLS_TRAIN_REPORT_H_
#define TESSERA_TOOLS_TRAIN_REPORT_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/metrics/json_lines.h"
#include "sharding/checkpoint/checkpointer.h"
#include "sharding/trainer.h"
#include "tools/loss_curve.h"

namespace tessera {

// What the first rank tells of a run: a live line for people, a file of JSON lines
// for programs, and a picture. On the other ranks nothing of it exists.
class Report {
 public:
  struct Options {
    std::string metrics;  // paths; empty for none
    std::string curve;
    int64_t steps = 0;
    int64_t targets_per_step = 0;
    double flops_per_step = 0;  // of all ranks
    double peak_flops = 0;      // per second, of all ranks
    TierBytes memory;
    int64_t first_step = -1;  // goes on after so many steps; -1: begins anew
  };
  static absl::StatusOr<std::unique_ptr<Report>> Create(const Options& options);

  // `step` counts the steps done.
  absl::Status Step(int64_t step, double learning_rate, const StepResult& result);
  absl::Status Evaluation(int64_t step, double loss);
  // A checkpoint was written, or could not be.
  absl::Status Saved(const Checkpointer::Outcome& outcome);
  // The run was asked to stop.
  void Stopped(int64_t step);
  // The end of the run: the digest of the weights, and the picture.
  absl::Status Finish(int64_t step, uint64_t weights_digest);

  // A line of text on standard output, below the live line.
  void Say(const std::string& text);

 private:
  explicit Report(const Options& options) : options_(options) {}
  void ShowLive(const std::string& line, bool last);

  const Options options_;
  std::unique_ptr<JsonLines> metrics_;
  std::vector<LossPoint> train_, validation_;
  bool live_ = false;  // standard output is a terminal: one line is rewritten
  bool line_is_open_ = false;
  double spent_ = 0;  // seconds in steps
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_REPORT_H_
