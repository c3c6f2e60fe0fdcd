#include "tools/bench/bench_parts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "core/cpu_device.h"
#include "core/metrics/progress_line.h"
#include "core/single_communicator.h"
#include "kernels/adamw.h"
#include "models/gpt2.h"
#include "sharding/build.h"
#include "sharding/trainer.h"
#include "sharding/verify.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/goal.h"
#include "tools/bench/random_tokens.h"
#include "tools/bench/spread.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// What is compared runs in turn, this often; in the first rounds everything is used
// for the first time.
constexpr int kRounds = 15;
constexpr int kUncounted = 2;

int Cores() { return static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L)); }

}  // namespace

absl::Status BenchStep() {
  if (!kBuiltWithOneDnn) {
    return absl::UnimplementedError(
        "bench step compares with oneDNN, without which this program was built");
  }
  constexpr int64_t kSequences = 4;
  const Gpt2Config config = SmallestGpt2();
  TESSERA_ASSIGN_OR_RETURN(Model model, MakeGpt2(config, DType::kBFloat16));
  const double operations = model.flops_per_sequence * kSequences;
  TrainerOptions options;
  options.plan.micro_sequences = kSequences;
  CpuDevice device({kLanes, Cores(), 0});
  SingleCommunicator communicator;
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                           Trainer::Create(std::move(model), options, device, communicator));
  RandomTokens source(config.vocabulary);
  OneDnnProducts products(
      ProductsOfGpt2(config.layers, config.width, config.vocabulary, kSequences * config.context),
      DType::kBFloat16, Cores());
  std::vector<double> step_seconds, product_seconds;
  for (int round = 0; round < kRounds; ++round) {
    TESSERA_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(source, 1e-4));
    const double seconds = products.Seconds();
    if (round < kUncounted) continue;
    step_seconds.push_back(result.seconds);
    product_seconds.push_back(seconds);
  }
  const Spread step = SpreadOf(std::move(step_seconds));
  const Spread alone = SpreadOf(std::move(product_seconds));
  const double rate = products.operations() / alone.median;
  std::printf("GPT-2 124M, 4 x 256 tokens, bf16, one rank of %d threads\n", Cores());
  std::printf("  step %.3f s (%.3f to %.3f), %.0f tokens/s, %sflop/s\n", step.median, step.least,
              step.most, kSequences * config.context / step.median,
              HumanCount(operations / step.median).c_str());
  std::printf("  oneDNN on its products alone %.3f s (%.3f to %.3f), %sflop/s\n", alone.median,
              alone.least, alone.most, HumanCount(rate).c_str());
  std::printf("  of the medians:");
  PrintGoal(operations / step.median / rate, 0.60, /*at_least=*/true);
  // What other load left alone: it may have met one side more than the other.
  std::printf("  of the best:   ");
  PrintGoal(operations / step.least / (products.operations() / alone.least), 0.60,
            /*at_least=*/true);

  // Where the latest step's time went.
  const Plan& plan = trainer->plans().train;
  std::vector<std::pair<double, std::string>> parts;
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Timing& timing = trainer->executor().timings()[i];
    const std::string name(NameOf(plan.instructions[i].operation));
    auto part =
        std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.second == name; });
    if (part == parts.end()) part = parts.insert(part, {0, name});
    part->first += timing.end - timing.begin;
  }
  std::sort(parts.rbegin(), parts.rend());
  for (const auto& [time, name] : parts) {
    if (time > 0.005 * step.median) std::printf("    %-20s %.3f s\n", name.c_str(), time);
  }
  return absl::OkStatus();
}

absl::Status BenchAdamW() {
  constexpr int64_t kParameters = int64_t{1} << 25;
  Triad triad(Cores());
  CpuDevice device({1, Cores(), 0});
  const auto tensor = [&](DType dtype) -> absl::StatusOr<Tensor> {
    TESSERA_ASSIGN_OR_RETURN(std::byte * data,
                             device.Allocate(MemoryKind::kDevice, kParameters * SizeOf(dtype)));
    return Tensor{data, dtype, {kParameters}};
  };
  TESSERA_ASSIGN_OR_RETURN(const Tensor gradient, tensor(DType::kBFloat16));
  TESSERA_ASSIGN_OR_RETURN(const Tensor parameter, tensor(DType::kBFloat16));
  TESSERA_ASSIGN_OR_RETURN(const Tensor master, tensor(DType::kFloat32));
  TESSERA_ASSIGN_OR_RETURN(const Tensor momentum, tensor(DType::kFloat32));
  TESSERA_ASSIGN_OR_RETURN(const Tensor variance, tensor(DType::kFloat32));
  const double clip = 0.5;
  std::vector<double> seconds, triad_seconds;
  for (int i = 0; i < kRounds; ++i) {
    const kernels::AdamWScalars scalars =
        kernels::MakeAdamWScalars(1e-4, 0.9, 0.95, 1e-8, 0.1, i + 1);
    const auto start = Clock::now();
    TESSERA_RETURN_IF_ERROR(kernels::AdamW(device.lane(0), scalars, gradient, &clip, master,
                                           momentum, variance, &parameter));
    const double adamw = SecondsSince(start);
    const double ceiling = triad.Seconds();
    if (i < kUncounted) continue;
    seconds.push_back(adamw);
    triad_seconds.push_back(ceiling);
  }
  const Spread spread = SpreadOf(std::move(seconds));
  const double rate = 28.0 * kParameters / spread.median;
  const double triad_rate = triad.bytes() / SpreadOf(std::move(triad_seconds)).median;
  std::printf("AdamW, bf16, %d threads\n", Cores());
  std::printf("  %sB/s (%sB/s to %sB/s) at 28 bytes per parameter; STREAM triad %sB/s\n",
              HumanCount(rate).c_str(), HumanCount(28.0 * kParameters / spread.most).c_str(),
              HumanCount(28.0 * kParameters / spread.least).c_str(),
              HumanCount(triad_rate).c_str());
  PrintGoal(rate / triad_rate, 0.85, /*at_least=*/true);
  return absl::OkStatus();
}

absl::Status BenchRanks(Communicator& communicator) {
  constexpr int64_t kBytes = int64_t{16} << 20;
  Gpt2Config config;
  config.layers = 6;
  config.heads = 8;
  config.width = 512;
  config.context = 256;
  config.vocabulary = 256;
  const int threads = std::max(1, Cores() / communicator.size());
  RandomTokens source(config.vocabulary);
  const bool prints = communicator.rank() == 0;

  // Both stages in turn, several times: the machine's other load hits both.
  std::array<std::unique_ptr<CpuDevice>, 2> devices;
  std::array<std::unique_ptr<Trainer>, 2> trainers;
  for (int i = 0; i < 2; ++i) {
    TESSERA_ASSIGN_OR_RETURN(Model model, MakeGpt2(config, DType::kBFloat16));
    TrainerOptions options;
    options.plan.micro_sequences = 4;
    options.plan.stage = i == 0 ? 0 : 3;
    devices[i] = std::make_unique<CpuDevice>(CpuDeviceOptions{kLanes, threads, 0});
    TESSERA_ASSIGN_OR_RETURN(trainers[i],
                             Trainer::Create(std::move(model), options, *devices[i], communicator));
  }
  std::array<std::vector<double>, 2> seconds;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 2; ++i) {
      TESSERA_ASSIGN_OR_RETURN(const StepResult result, trainers[i]->Step(source, 1e-4));
      if (round >= kUncounted) seconds[i].push_back(result.seconds);
    }
  }
  const Spread zero = SpreadOf(seconds[0]);
  const Spread three = SpreadOf(seconds[1]);

  std::vector<std::byte> own(kBytes), all(kBytes * communicator.size());
  std::vector<double> gather;
  for (int i = 0; i < 9; ++i) {
    TESSERA_RETURN_IF_ERROR(communicator.Barrier());
    const auto start = Clock::now();
    TESSERA_RETURN_IF_ERROR(communicator.AllGather(own.data(), all.data(), kBytes));
    gather.push_back(SecondsSince(start));
  }
  if (!prints) return absl::OkStatus();
  std::printf("%d ranks of %d threads, GPT of 19M parameters, 4 x 256 tokens each, bf16\n",
              communicator.size(), threads);
  std::printf(
      "  step at stage 0 %.3f s (%.3f to %.3f), at stage 3 %.3f s (%.3f to %.3f), of "
      "which %.3f s of communication not hidden\n",
      zero.median, zero.least, zero.most, three.median, three.least, three.most,
      trainers[1]->executor().exposed_communication_seconds());
  PrintGoal(three.median / zero.median, 1.15, /*at_least=*/false);
  const double rate = static_cast<double>(kBytes) / SpreadOf(gather).median;
  const double copy = CopyRate();
  std::printf("  gather of 16 MiB: %sB/s received; copy of memory %sB/s; ratio %.2f\n",
              HumanCount(rate * (communicator.size() - 1)).c_str(), HumanCount(copy).c_str(),
              rate * (communicator.size() - 1) / copy);
  return absl::OkStatus();
}

absl::Status BenchPlan() {
  Gpt2Config config;
  config.layers = config.heads = 96;
  config.width = 12288;
  config.context = 2048;
  config.vocabulary = 50257;
  TESSERA_ASSIGN_OR_RETURN(const Model model, MakeGpt2(config, DType::kBFloat16));
  PlanOptions options;
  options.world = 1024;
  options.stage = 3;
  const auto start = Clock::now();
  TESSERA_ASSIGN_OR_RETURN(const Plan plan, BuildPlan(model, options));
  const double built = SecondsSince(start);
  TESSERA_RETURN_IF_ERROR(Verify(plan, model, kUnlimitedTiers));
  const double verified = SecondsSince(start);
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("plan of a GPT of 96 layers and 175B parameters on 1024 ranks at stage 3\n");
  std::printf("  %zu instructions, %s per rank; built in %.2f s, verified after %.2f s, with %s\n",
              plan.instructions.size(),
              HumanBytes(static_cast<double>(plan.arena_bytes[Tier::kDevice])).c_str(), built,
              verified, HumanBytes(1024.0 * static_cast<double>(usage.ru_maxrss)).c_str());
  PrintGoal(verified, 5.0, /*at_least=*/false);
  return absl::OkStatus();
}

}  // namespace tessera
