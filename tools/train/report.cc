#include "tools/train/report.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/metrics/progress_line.h"
#include "core/status.h"
#include "offload/tier.h"

namespace tessera {
namespace {

// Without a terminal, a line now and then is enough.
constexpr std::chrono::seconds kBetweenLines(5);
constexpr std::chrono::milliseconds kBetweenRewrites(100);

}  // namespace

absl::StatusOr<std::unique_ptr<Report>> Report::Create(const Options& options) {
  std::unique_ptr<Report> report(new Report(options));
  if (!options.metrics.empty()) {
    // What an interrupted run told of later steps, this one will tell.
    const auto keep = [&](const nlohmann::json& line) {
      const auto step = line.find("step");
      return step == line.end() || (step->is_number() && *step <= options.first_step);
    };
    absl::StatusOr<JsonLines> metrics = options.first_step < 0
                                            ? JsonLines::Create(options.metrics)
                                            : JsonLines::Continue(options.metrics, keep);
    if (!metrics.ok()) return metrics.status();
    report->metrics_ = std::make_unique<JsonLines>(*std::move(metrics));
  }
  // mpirun shows its ranks a terminal in any case; the launcher knows better.
  const char* const launcher_says = std::getenv("TESSERA_TERMINAL");
  report->live_ = launcher_says != nullptr ? *launcher_says == '1' : isatty(STDOUT_FILENO) != 0;
  return report;
}

absl::Status Report::Step(int64_t step, double learning_rate, const StepResult& result) {
  spent_ += result.seconds;
  train_.push_back({static_cast<double>(step), result.loss});
  Progress progress;
  progress.step = step;
  progress.steps = options_.steps;
  progress.loss = result.loss;
  progress.learning_rate = learning_rate;
  progress.grad_norm = result.gradient_norm;
  progress.tokens_per_second = static_cast<double>(options_.targets_per_step) / result.seconds;
  progress.mfu = options_.flops_per_step / result.seconds / options_.peak_flops;
  progress.exposed_communication_seconds = result.exposed_communication_seconds;
  progress.bytes_sent = result.bytes_sent;
  progress.memory = {{"device", options_.memory[Tier::kDevice]}};
  progress.seconds_left =
      spent_ / static_cast<double>(train_.size()) * static_cast<double>(options_.steps - step);
  ShowLive(ProgressLine(progress), step == options_.steps);
  if (metrics_ == nullptr) return absl::OkStatus();

  nlohmann::ordered_json line;
  line["step"] = step;
  line["loss"] = result.loss;
  line["grad_norm"] = result.gradient_norm;
  line["learning_rate"] = learning_rate;
  line["tokens_per_second"] = progress.tokens_per_second;
  line["mfu"] = progress.mfu;
  line["seconds"] = result.seconds;
  line["exposed_communication_seconds"] = result.exposed_communication_seconds;
  line["bytes_sent"] = result.bytes_sent;
  line["control_bytes_sent"] = result.control_bytes_sent;
  line["traffic"] = {{"copy_in", result.traffic.copied_in},
                     {"copy_out", result.traffic.copied_out},
                     {"nvme_read", result.traffic.read},
                     {"nvme_write", result.traffic.written}};
  for (const Tier tier : kTiers) {
    line["memory"][std::string(NameOf(tier))] = options_.memory[tier];
  }
  return metrics_->Write(line);
}

absl::Status Report::Evaluation(int64_t step, double loss) {
  validation_.push_back({static_cast<double>(step), loss});
  Say(absl::StrFormat("step %d  validation loss %.4f", step, loss));
  if (metrics_ == nullptr) return absl::OkStatus();
  nlohmann::ordered_json line;
  line["step"] = step;
  line["validation_loss"] = loss;
  return metrics_->Write(line);
}

absl::Status Report::Saved(const Checkpointer::Outcome& outcome) {
  const bool saved = outcome.status.ok();
  if (saved) {
    Say(absl::StrFormat("step %d  checkpoint %s: %s, training stood still for %.2f s", outcome.step,
                        outcome.path, HumanBytes(static_cast<double>(outcome.bytes)),
                        outcome.blocked_seconds));
  } else {
    Say(absl::StrFormat("step %d  note: no checkpoint could be written: %s", outcome.step,
                        std::string(outcome.status.message())));
  }
  if (metrics_ == nullptr) return absl::OkStatus();
  nlohmann::ordered_json line;
  line["step"] = outcome.step;
  line["checkpoint"] = outcome.path;
  if (!saved) line["checkpoint_error"] = std::string(outcome.status.message());
  line["checkpoint_bytes"] = outcome.bytes;
  line["blocked_seconds"] = outcome.blocked_seconds;
  line["write_seconds"] = outcome.seconds;
  return metrics_->Write(line);
}

void Report::Stopped(int64_t step) { Say(absl::StrCat("stopped after step ", step)); }

absl::Status Report::Finish(int64_t step, uint64_t weights_digest) {
  if (metrics_ != nullptr) {
    nlohmann::ordered_json line;
    line["steps_done"] = step;
    line["weights_digest"] = absl::StrFormat("%016x", weights_digest);
    TESSERA_RETURN_IF_ERROR(metrics_->Write(line));
  }
  if (options_.curve.empty()) return absl::OkStatus();
  TESSERA_RETURN_IF_ERROR(WriteLossCurve(options_.curve, train_, validation_));
  Say(absl::StrCat("loss curve: ", options_.curve));
  return absl::OkStatus();
}

void Report::Say(const std::string& text) {
  std::printf("%s%s\n", line_is_open_ ? "\n" : "", text.c_str());
  std::fflush(stdout);
  line_is_open_ = false;
}

void Report::ShowLive(const std::string& line, bool last) {
  const auto now = std::chrono::steady_clock::now();
  const bool first = shown_ == std::chrono::steady_clock::time_point();
  if (!first && !last && now - shown_ < (live_ ? kBetweenRewrites : kBetweenLines)) return;
  shown_ = now;
  // The rest of a longer line before is cleared.
  std::printf(live_ ? "\r%s\033[K" : "%s\n", line.c_str());
  std::fflush(stdout);
  line_is_open_ = live_;
}

}  // namespace tessera
