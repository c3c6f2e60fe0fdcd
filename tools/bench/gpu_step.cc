#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/single_communicator.h"
#include "core/status.h"
#include "core/thread_pool.h"
#include "sharding/trainer.h"
#include "tools/bench/gpu_ceilings.h"
#include "tools/bench/gpu_parts.h"
#include "tools/bench/random_tokens.h"
#include "tools/train/local_ranks.h"
#include "tools/train/run_device.h"

namespace tessera {
namespace {

// What CUDA and cuBLASLt may yet take for themselves.
constexpr int64_t kMargin = int64_t{1} << 30;

// The seconds in which some instruction of the latest run was on the GPU. What passes
// between two kernels of an instruction is not seen.
double BusySeconds(const Plan& plan, const std::vector<Timing>& timings) {
  std::vector<Timing> on_gpu;
  for (size_t i = 0; i < timings.size(); ++i) {
    if (plan.instructions[i].lane != LaneKind::kHost) on_gpu.push_back(timings[i]);
  }
  std::sort(on_gpu.begin(), on_gpu.end(),
            [](const Timing& a, const Timing& b) { return a.begin < b.begin; });
  double busy = 0;
  double until = 0;
  for (const Timing& timing : on_gpu) {
    busy += std::max(0.0, timing.end - std::max(timing.begin, until));
    until = std::max(until, timing.end);
  }
  return busy;
}

// The options under which the step fits into `capacity` bytes of the GPU, with the
// largest micro-batch; with none of them ResourceExhausted.
absl::StatusOr<TrainerOptions> FittingOptions(const GpuBenchSizes::Step& step, const Model& model,
                                              int64_t capacity) {
  TrainerOptions options;
  options.plan.library_workspace_bytes = LibraryWorkspaceBytes(Backend::kCuda);
  int64_t needed = 0;
  for (const int64_t sequences : step.micro_sequences) {
    options.plan.micro_sequences = sequences;
    TESSERA_ASSIGN_OR_RETURN(const PlanSet plans, BuildPlans(model, options.plan));
    needed = plans.arena_bytes[Tier::kDevice];
    if (needed <= capacity) return options;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("needs ", needed, " bytes of GPU memory, of which ", capacity, " are free"));
}

}  // namespace

absl::Status BenchGpuStep(const GpuBenchSizes& sizes, const GpuBenchSizes::Step& step,
                          GpuReport& report) {
  SingleCommunicator communicator;
  TESSERA_ASSIGN_OR_RETURN(const RunDevice run,
                           MakeRunDevice(Backend::kCuda, CoresPerRank(), communicator));
  Device& device = *run.device;
  GpuTimer timer(device);
  TESSERA_ASSIGN_OR_RETURN(GpuCeilings ceilings, GpuCeilings::Create(device, timer, sizes));
  TESSERA_ASSIGN_OR_RETURN(Model model, MakeGpt2(step.model, DType::kBFloat16));
  TESSERA_ASSIGN_OR_RETURN(const int64_t free, run.free_bytes());
  const absl::StatusOr<TrainerOptions> options = FittingOptions(step, model, free - kMargin);
  if (absl::IsResourceExhausted(options.status())) {
    report.Title(step.name);
    report.Note(absl::StrCat("not measured: ", options.status().message()));
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(options.status());
  const int64_t sequences = options->plan.micro_sequences;
  const auto tokens = static_cast<double>(sequences * step.model.context);
  const double operations = model.flops_per_sequence * static_cast<double>(sequences);
  report.Title(
      absl::StrCat(step.name, ", ", sequences, " x ", step.model.context, " tokens, bf16"));
  TESSERA_ASSIGN_OR_RETURN(
      const std::unique_ptr<Trainer> trainer,
      Trainer::Create(std::move(model), *options, device, communicator, run.collectives.get()));

  RandomTokens source(step.model.vocabulary);
  std::vector<double> rates, idle, ceiling_rates;
  for (int round = 0; round < sizes.uncounted + sizes.rounds; ++round) {
    TESSERA_ASSIGN_OR_RETURN(const double ceiling, ceilings.ProductRate());
    TESSERA_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(source, 1e-4));
    if (round < sizes.uncounted) continue;
    const double busy = BusySeconds(trainer->plans().train, trainer->executor().timings());
    ceiling_rates.push_back(ceiling);
    rates.push_back(1 / result.seconds);
    idle.push_back(std::max(0.0, 1 - busy / result.seconds));
  }
  const Spread steps = SpreadOf(rates);
  const auto scaled = [&](double factor) {
    return Spread{steps.median * factor, steps.least * factor, steps.most * factor};
  };
  report.Add({.name = absl::StrCat(step.name, " tokens"), .unit = "/s", .value = scaled(tokens)});
  GpuFigure figure = {.name = absl::StrCat(step.name, " step"),
                      .unit = "flop/s",
                      .value = scaled(operations),
                      .against = "product",
                      .ceiling = SpreadOf(ceiling_rates).median,
                      .goal = step.goal};
  report.Add(figure);
  if (const std::optional<double> nominal = NominalRate(run.name)) {
    figure.against = "the data sheet's rate";
    figure.ceiling = *nominal;
    figure.goal = std::nullopt;
    report.Add(figure);
  }
  report.Add({.name = absl::StrCat(step.name, " idle"),
              .value = SpreadOf(idle),
              .goal = 0.03,
              .at_least = false});
  return absl::OkStatus();
}

}  // namespace tessera
