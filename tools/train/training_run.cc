#include "tools/train/training_run.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/atomic_file.h"
#include "core/data/token_batches.h"
#include "core/metrics/chrome_trace.h"
#include "core/metrics/progress_line.h"
#include "sharding/checkpoint/checkpointer.h"
#include "tools/check_run.h"
#include "tools/launch/stop_signal.h"
#include "tools/run_model.h"
#include "tools/schedule.h"
#include "tools/train/local_ranks.h"
#include "tools/train/matrix_rate.h"
#include "tools/train/report.h"
#include "tools/train/resume.h"
#include "tools/train/run_device.h"
#include "tools/train/sampler.h"

namespace tessera {
namespace {

// Bytes of anonymous memory that the process has: the arena, and what libraries took.
int64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int64_t kibibytes = 0;
    if (line.rfind("RssAnon:", 0) == 0 &&
        absl::SimpleAtoi(line.substr(8, line.size() - 8 - 3), &kibibytes)) {
      return kibibytes << 10;
    }
  }
  return 0;
}

// "optimizer nvme 0.94, gradients host": what is not on the device.
std::string Describe(const Offload& offload) {
  std::vector<std::string> parts;
  ForEachPlacement(offload, [&](absl::string_view name, const Placement& placement) {
    if (placement.tier == Tier::kDevice) return;
    parts.push_back(absl::StrCat(name, " ", NameOf(placement.tier)));
    if (placement.fraction != 1) absl::StrAppendFormat(&parts.back(), " %.3g", placement.fraction);
  });
  return absl::StrJoin(parts, ", ");
}

// Memory of a rank: the device's, and what is offloaded elsewhere.
std::string Describe(const TierBytes& bytes) {
  std::string text = HumanBytes(static_cast<double>(bytes[Tier::kDevice]));
  const auto add = [&](Tier tier) {
    absl::StrAppend(&text, " + ", HumanBytes(static_cast<double>(bytes[tier])), " ", NameOf(tier));
  };
  constexpr int64_t kWorthSaying = int64_t{1} << 20;
  if (bytes[Tier::kHost] >= kWorthSaying) add(Tier::kHost);
  if (bytes[Tier::kNvme] > 0) add(Tier::kNvme);
  return text;
}

absl::StatusOr<std::unique_ptr<TokenBatches>> OpenData(const std::string& path,
                                                       const RunConfig& config, bool shuffle) {
  TESSERA_ASSIGN_OR_RETURN(std::shared_ptr<const TokenFile> file,
                           TokenFile::Open(path, config.model.vocabulary));
  return TokenBatches::Create(
      std::move(file), config.model.context,
      shuffle ? std::optional<uint64_t>(static_cast<uint64_t>(config.seed)) : std::nullopt);
}

class Run {
 public:
  Run(const RunConfig& config, const std::vector<std::string>& allowed, Backend backend,
      const RunOutputs& outputs, Communicator& communicator,
      std::function<void(const absl::Status&)> report_failure)
      : config_(config),
        allowed_(allowed),
        backend_(backend),
        outputs_(outputs),
        communicator_(communicator),
        report_failure_(std::move(report_failure)) {}

  absl::StatusOr<RunEnd> Train() {
    TESSERA_RETURN_IF_ERROR(SetUp());
    RunEnd end = RunEnd::kDone;
    for (int64_t step = trainer_->steps_done(); step < config_.schedule.steps; ++step) {
      TESSERA_ASSIGN_OR_RETURN(const bool stop, AgreeToStop());
      if (stop) {
        end = RunEnd::kStopped;
        break;
      }
      TESSERA_RETURN_IF_ERROR(Step(step));
    }
    const int64_t done = trainer_->steps_done();
    TESSERA_RETURN_IF_ERROR(SaveLast());
    if (end == RunEnd::kStopped && report_ != nullptr) report_->Stopped(done);
    if (end == RunEnd::kDone && validation_ != nullptr && evaluated_ != done) {
      TESSERA_RETURN_IF_ERROR(Evaluate());
    }
    if (end == RunEnd::kDone && config_.sample.length > 0) TESSERA_RETURN_IF_ERROR(Sample());
    TESSERA_ASSIGN_OR_RETURN(const uint64_t digest, trainer_->WeightsDigest());
    if (report_ != nullptr) TESSERA_RETURN_IF_ERROR(report_->Finish(done, digest));
    return end;
  }

 private:
  static int ThreadsOf(const RunConfig& config) {
    return config.threads > 0 ? static_cast<int>(config.threads) : CoresPerRank();
  }

  absl::Status SetUp() {
    if (communicator_.rank() == 0) TESSERA_RETURN_IF_ERROR(CheckOutputs());
    TESSERA_ASSIGN_OR_RETURN(train_, OpenData(config_.data.train, config_, /*shuffle=*/true));
    if (!config_.data.validation.empty()) {
      TESSERA_ASSIGN_OR_RETURN(validation_,
                               OpenData(config_.data.validation, config_, /*shuffle=*/false));
    }
    TESSERA_ASSIGN_OR_RETURN(Model model, MakeModel(config_));
    TrainerOptions options = MakeTrainerOptions(config_, communicator_.size());
    // On a device of its own, which is gone when the run's memory is taken.
    TESSERA_ASSIGN_OR_RETURN(const double rate, MatrixRate());
    TESSERA_ASSIGN_OR_RETURN(device_, MakeRunDevice(backend_, ThreadsOf(config_), communicator_));
    if (device_.free_bytes) {
      TESSERA_ASSIGN_OR_RETURN(free_before_, device_.free_bytes());
    }
    TESSERA_ASSIGN_OR_RETURN(options.capacity,
                             CapacityOf(config_, backend_, RanksHere(), free_before_));
    TESSERA_ASSIGN_OR_RETURN(options.capacity, LeastOf(options.capacity, communicator_));
    if (free_before_ || PlacesAutomatically(config_)) {
      TESSERA_ASSIGN_OR_RETURN(const PlanSet plans,
                               CheckRun(config_, communicator_.size(), backend_, options.capacity));
      options.plan.offload = plans.train.options.offload;
    }
    options.on_failure = report_failure_;
    TESSERA_ASSIGN_OR_RETURN(trainer_, Trainer::Create(std::move(model), options, *device_.device,
                                                       communicator_, device_.collectives.get()));
    TESSERA_RETURN_IF_ERROR(trainer_->WarmUp(*train_));
    TESSERA_RETURN_IF_ERROR(CheckReserve());
    TESSERA_ASSIGN_OR_RETURN(const std::string data, train_->file().Identity());
    TESSERA_ASSIGN_OR_RETURN(const Resumed resumed,
                             ResumeRun(config_, allowed_, data, *trainer_, communicator_));
    saved_ = resumed.path.empty() ? -1 : resumed.step;
    if (!config_.checkpoint.folder.empty()) {
      const Checkpointer::Options options = {
          config_.checkpoint.folder, config_.checkpoint.keep_last, config_.checkpoint.keep_every,
          ResultSettings(config_), data};
      TESSERA_ASSIGN_OR_RETURN(checkpointer_,
                               Checkpointer::Create(options, *trainer_, communicator_));
    }

    auto peak = static_cast<int64_t>(rate);
    TESSERA_RETURN_IF_ERROR(communicator_.AllReduceSum(absl::MakeSpan(&peak, 1)));
    if (communicator_.rank() != 0) return absl::OkStatus();

    Report::Options report;
    report.metrics = outputs_.metrics;
    report.curve = outputs_.curve;
    report.steps = config_.schedule.steps;
    report.targets_per_step = trainer_->targets_per_step();
    report.flops_per_step =
        trainer_->model().flops_per_sequence * static_cast<double>(config_.batch.global);
    report.peak_flops = static_cast<double>(peak);
    report.memory = trainer_->plans().arena_bytes;
    report.first_step = resumed.path.empty() ? -1 : resumed.step;
    TESSERA_ASSIGN_OR_RETURN(report_, Report::Create(report));
    Introduce(rate, resumed);
    return absl::OkStatus();
  }

  absl::StatusOr<double> MatrixRate() const {
    TESSERA_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                             MakeDevice(backend_, ThreadsOf(config_)));
    return MeasureMatrixRate(*device, config_.precision);
  }

  // What is written late is found impossible early.
  absl::Status CheckOutputs() const {
    for (const std::string& path : {outputs_.curve, outputs_.trace}) {
      if (!path.empty()) TESSERA_RETURN_IF_ERROR(AtomicFile::CheckPath(path));
    }
    return absl::OkStatus();
  }

  void Introduce(double rate, const Resumed& resumed) {
    int64_t parameters = 0;
    for (const UnitPartition& unit : trainer_->plans().train.partitions) {
      for (int64_t size : unit.sizes) parameters += size;
    }
    report_->Say(absl::StrFormat(
        "%s parameters in %s on %d rank%s of %s, ZeRO stage %d, %s per rank, matrix "
        "products at %s flop/s",
        HumanCount(static_cast<double>(parameters)), NameOf(config_.precision),
        communicator_.size(), communicator_.size() == 1 ? "" : "s", device_.name,
        config_.zero.stage, Describe(trainer_->plans().arena_bytes), HumanCount(rate)));
    const Offload& offload = trainer_->plans().train.options.offload;
    if (!(offload == Offload())) report_->Say(absl::StrCat("offload: ", Describe(offload)));
    if (const std::string note = trainer_->nvme_note(); !note.empty()) {
      report_->Say(absl::StrCat("note: ", note));
    }
    const std::string withdrawn = WithdrawnPromise(config_, communicator_.size());
    if (!withdrawn.empty()) report_->Say(absl::StrCat("note: ", withdrawn));
    for (const std::string& why : resumed.passed_over) {
      report_->Say(absl::StrCat("note: passed over a checkpoint: ", why));
    }
    if (!resumed.path.empty()) {
      report_->Say(absl::StrCat("resumed from ", resumed.path, ", after step ", resumed.step));
    } else if (config_.resume == kResumeAuto) {
      report_->Say(absl::StrCat("no checkpoint in ", config_.checkpoint.folder, ": begins anew"));
    }
  }

  // All ranks stop after the same step, whichever was asked to.
  absl::StatusOr<bool> AgreeToStop() {
    int64_t votes = StopRequested() ? 1 : 0;
    TESSERA_RETURN_IF_ERROR(communicator_.AllReduceSum(absl::MakeSpan(&votes, 1)));
    return votes > 0;
  }

  absl::Status Step(int64_t step) {
    const double learning_rate =
        LearningRate(config_.schedule, config_.optimizer.learning_rate, step);
    TESSERA_ASSIGN_OR_RETURN(const StepResult result, trainer_->Step(*train_, learning_rate));
    const int64_t done = step + 1;
    if (report_ != nullptr) TESSERA_RETURN_IF_ERROR(report_->Step(done, learning_rate, result));
    if (!traced_) TESSERA_RETURN_IF_ERROR(Trace());
    traced_ = true;
    if (config_.evaluate.every > 0 && done % config_.evaluate.every == 0) {
      TESSERA_RETURN_IF_ERROR(Evaluate());
    }
    return Save(done);
  }

  // Looks after the checkpoint that is being written, and begins one where it is due.
  absl::Status Save(int64_t done) {
    if (checkpointer_ == nullptr) return absl::OkStatus();
    const bool due = config_.checkpoint.every > 0 && done % config_.checkpoint.every == 0;
    if (checkpointer_->busy()) {
      std::optional<Checkpointer::Outcome> outcome;
      if (due) {
        TESSERA_ASSIGN_OR_RETURN(outcome, checkpointer_->Wait());
      } else {
        TESSERA_ASSIGN_OR_RETURN(outcome, checkpointer_->Poll());
      }
      if (outcome) TESSERA_RETURN_IF_ERROR(Saved(*outcome));
    }
    return due ? checkpointer_->Begin() : absl::OkStatus();
  }

  // A run that goes on can do without a checkpoint that could not be written.
  absl::Status Saved(const Checkpointer::Outcome& outcome) {
    if (outcome.status.ok()) saved_ = outcome.step;
    return report_ == nullptr ? absl::OkStatus() : report_->Saved(outcome);
  }

  // The run ends here: its last step is in a checkpoint, or that is an error.
  absl::Status SaveLast() {
    if (checkpointer_ == nullptr) return absl::OkStatus();
    if (checkpointer_->busy()) {
      TESSERA_ASSIGN_OR_RETURN(const Checkpointer::Outcome outcome, checkpointer_->Wait());
      TESSERA_RETURN_IF_ERROR(Saved(outcome));
    }
    if (saved_ == trainer_->steps_done()) return absl::OkStatus();
    TESSERA_RETURN_IF_ERROR(checkpointer_->Begin());
    TESSERA_ASSIGN_OR_RETURN(const Checkpointer::Outcome outcome, checkpointer_->Wait());
    TESSERA_RETURN_IF_ERROR(Saved(outcome));
    if (outcome.status.ok() || communicator_.rank() == 0) return outcome.status;
    return absl::CancelledError(outcome.status.message());
  }

  // What is taken beside the arenas of the memory that the device's is of.
  absl::StatusOr<int64_t> TakenBeside() const {
    const TierBytes& arenas = trainer_->plans().arena_bytes;
    if (!free_before_) return AnonymousBytes() - arenas[Tier::kDevice] - arenas[Tier::kHost];
    TESSERA_ASSIGN_OR_RETURN(const int64_t free, device_.free_bytes());
    return *free_before_ - free - arenas[Tier::kDevice];
  }

  // What libraries took, once everything has been used.
  absl::Status CheckReserve() const {
    TESSERA_ASSIGN_OR_RETURN(const int64_t taken, TakenBeside());
    if (taken <= config_.memory.reserve) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("libraries and buffers beside the arenas take ", taken,
                     " bytes, but memory.reserve is ", config_.memory.reserve, "; raise it to ",
                     HumanBytes(1.2 * static_cast<double>(taken)), " or more"));
  }

  absl::Status Trace() const {
    if (outputs_.trace.empty() || communicator_.rank() != 0) return absl::OkStatus();
    const Plan& plan = trainer_->plans().train;
    std::vector<TraceEvent> events;
    for (size_t i = 0; i < plan.instructions.size(); ++i) {
      const Instruction& instruction = plan.instructions[i];
      const Timing& timing = trainer_->executor().timings()[i];
      events.push_back({ShortName(trainer_->model(), instruction),
                        std::string(NameOf(instruction.lane)), timing.begin * 1e6,
                        (timing.end - timing.begin) * 1e6});
    }
    return WriteChromeTrace(outputs_.trace, "a training step", events);
  }

  absl::Status Evaluate() {
    const int64_t micro_batches =
        config_.evaluate.batches * config_.batch.global / config_.batch.micro;
    TESSERA_ASSIGN_OR_RETURN(const double loss, trainer_->Evaluate(*validation_, micro_batches));
    evaluated_ = trainer_->steps_done();
    return report_ == nullptr ? absl::OkStatus() : report_->Evaluation(evaluated_, loss);
  }

  absl::Status Sample() {
    TESSERA_ASSIGN_OR_RETURN(
        const std::string text,
        SampleText(*trainer_, config_.sample.prompt, config_.sample.length,
                   config_.sample.temperature, static_cast<uint64_t>(config_.seed)));
    if (report_ != nullptr) report_->Say(absl::StrCat("sample:\n", Printable(text)));
    return absl::OkStatus();
  }

  const RunConfig& config_;
  const std::vector<std::string>& allowed_;
  const Backend backend_;
  const RunOutputs& outputs_;
  Communicator& communicator_;
  const std::function<void(const absl::Status&)> report_failure_;
  RunDevice device_;
  std::optional<int64_t> free_before_;  // of the device's own memory, without the arena
  std::unique_ptr<TokenBatches> train_, validation_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Checkpointer> checkpointer_;  // null where no checkpoints are written
  std::unique_ptr<Report> report_;              // on the first rank
  int64_t evaluated_ = -1;                      // after which step
  int64_t saved_ = -1;                          // the last step that is in a checkpoint
  bool traced_ = false;
};

}  // namespace

absl::StatusOr<RunEnd> TrainRun(const RunConfig& config, const std::vector<std::string>& allowed,
                                Backend backend, const RunOutputs& outputs,
                                Communicator& communicator,
                                const std::function<void(const absl::Status&)>& report) {
  std::once_flag reported;
  const auto report_once = [&](const absl::Status& failure) {
    std::call_once(reported, [&] { report(failure); });
  };
  absl::StatusOr<RunEnd> end =
      Run(config, allowed, backend, outputs, communicator, report_once).Train();
  if (!end.ok() && !absl::IsCancelled(end.status())) {
    report_once(end.status());
    communicator.Abort(end.status());
  }
  return end;
}

}  // namespace tessera
