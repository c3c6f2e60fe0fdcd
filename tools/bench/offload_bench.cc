#include "tools/bench/offload_bench.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "core/cpu_device.h"
#include "core/metrics/progress_line.h"
#include "core/single_communicator.h"
#include "models/gpt2.h"
#include "offload/io_queue.h"
#include "offload/nvme_file.h"
#include "sharding/price.h"
#include "sharding/trainer.h"
#include "tools/bench/ceilings.h"
#include "tools/bench/direct_io.h"
#include "tools/bench/goal.h"
#include "tools/bench/random_tokens.h"
#include "tools/bench/spread.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 7;
constexpr int kUncounted = 2;

// Bytes per second, which the steps below are measured by.
struct Rates {
  double read = 0;
  double write = 0;
};

absl::StatusOr<Rates> BenchFile(const std::string& folder) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  constexpr int64_t kTransfer = int64_t{48} << 20;  // as a tile of the optimizer has
  TESSERA_ASSIGN_OR_RETURN(const std::unique_ptr<NvmeFile> file, NvmeFile::Create(folder, kBytes));
  if (!file->note().empty()) std::printf("note: %s\n", file->note().c_str());
  // As a run's memory is.
  CpuDevice device({1, 1, 0});
  TESSERA_ASSIGN_OR_RETURN(std::byte* const data, device.Allocate(MemoryKind::kHost, kTransfer));
  TESSERA_ASSIGN_OR_RETURN(
      const std::unique_ptr<DirectIo> direct,
      DirectIo::Create(folder, kBytes, IoQueue::kBlockBytes, IoQueue::kDepth, data, kTransfer));
  const auto move = [&](bool write) -> absl::StatusOr<double> {
    const auto start = Clock::now();
    for (int64_t at = 0; at < kBytes; at += kTransfer) {
      const NvmeFile::Transfer transfer = {data, at, std::min(kTransfer, kBytes - at)};
      TESSERA_RETURN_IF_ERROR(write ? file->Write({transfer}) : file->Read({transfer}));
    }
    return SecondsSince(start);
  };
  std::array<std::vector<double>, 2> own, plain;
  for (int round = 0; round < kRounds; ++round) {
    for (const int write : {1, 0}) {
      TESSERA_ASSIGN_OR_RETURN(const double ours, move(write == 1));
      TESSERA_ASSIGN_OR_RETURN(const double theirs, direct->Seconds(write == 1));
      if (round < kUncounted) continue;
      own[write].push_back(ours);
      plain[write].push_back(theirs);
    }
  }
  std::printf("the NVMe tier in %s, blocks of %s, %d in flight\n", folder.c_str(),
              HumanBytes(static_cast<double>(IoQueue::kBlockBytes)).c_str(), IoQueue::kDepth);
  Rates rates;
  for (const int write : {0, 1}) {
    const Spread ours = SpreadOf(own[write]);
    const Spread theirs = SpreadOf(plain[write]);
    constexpr auto kSize = static_cast<double>(kBytes);
    (write == 1 ? rates.write : rates.read) = kSize / ours.median;
    std::printf("  %s %sB/s (%sB/s to %sB/s); plain direct I/O %sB/s\n",
                write == 1 ? "writes" : "reads", HumanCount(kSize / ours.median).c_str(),
                HumanCount(kSize / ours.most).c_str(), HumanCount(kSize / ours.least).c_str(),
                HumanCount(kSize / theirs.median).c_str());
    PrintGoal(theirs.median / ours.median, 0.90, /*at_least=*/true);
  }
  return rates;
}

// One way to place things, and the steps it took.
struct Placed {
  const char* name;
  Offload offload;
  std::unique_ptr<CpuDevice> device;
  std::unique_ptr<Trainer> trainer;
  std::vector<double> seconds;
};

absl::Status BenchSteps(const std::string& folder, const Rates& rates) {
  constexpr int64_t kSequences = 4;
  const Gpt2Config config = SmallestGpt2();
  const int cores = static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
  SingleCommunicator communicator;
  RandomTokens source(config.vocabulary);
  const Placement host = {Tier::kHost, 1};
  const Placement nvme = {Tier::kNvme, 1};
  std::printf("GPT-2 124M, 4 backward passes of 4 x 256 tokens, bf16, one rank of %d threads\n",
              cores);
  // The two that are compared run in turn, while only they take memory.
  const auto compare = [&](Placed* plain, Placed* placed) -> absl::Status {
    for (Placed* each : {plain, placed}) {
      TESSERA_ASSIGN_OR_RETURN(Model model, MakeGpt2(config, DType::kBFloat16));
      TrainerOptions options;
      options.plan.micro_sequences = kSequences;
      options.plan.accumulation = 4;
      options.plan.sum_group = 4;
      options.plan.offload = each->offload;
      options.nvme_folder = folder;
      each->device = std::make_unique<CpuDevice>(CpuDeviceOptions{kLanes, cores, 0});
      TESSERA_ASSIGN_OR_RETURN(
          each->trainer, Trainer::Create(std::move(model), options, *each->device, communicator));
    }
    for (int round = 0; round < kRounds; ++round) {
      for (Placed* each : {plain, placed}) {
        TESSERA_ASSIGN_OR_RETURN(const StepResult result, each->trainer->Step(source, 1e-4));
        if (round >= kUncounted) each->seconds.push_back(result.seconds);
      }
    }
    const Spread alone = SpreadOf(plain->seconds);
    const Spread moved = SpreadOf(placed->seconds);
    std::printf("  %s: step %.3f s (%.3f to %.3f); on the device %.3f s (%.3f to %.3f)\n",
                placed->name, moved.median, moved.least, moved.most, alone.median, alone.least,
                alone.most);
    return absl::OkStatus();
  };
  for (const auto& [name, offload] :
       {std::pair("optimizer on the host", Offload{host, {}, {}, {}}),
        std::pair("optimizer and gradients on the host", Offload{host, host, {}, {}})}) {
    Placed plain = {"", {}, nullptr, nullptr, {}};
    Placed placed = {name, offload, nullptr, nullptr, {}};
    TESSERA_RETURN_IF_ERROR(compare(&plain, &placed));
    PrintGoal(SpreadOf(placed.seconds).median / SpreadOf(plain.seconds).median, 1.10,
              /*at_least=*/false);
  }
  Placed plain = {"", {}, nullptr, nullptr, {}};
  Placed placed = {"optimizer on NVMe", {nvme, {}, {}, {}}, nullptr, nullptr, {}};
  TESSERA_RETURN_IF_ERROR(compare(&plain, &placed));
  const TierTraffic traffic = TrafficOf(placed.trainer->plans().train);
  const double io = static_cast<double>(traffic.read) / rates.read +
                    static_cast<double>(traffic.written) / rates.write;
  const double step = SpreadOf(plain.seconds).median;
  const double shown = SpreadOf(placed.seconds).median - step;
  std::printf("    %sB read and %sB written would take %.3f s; not hidden %.3f s, at best %.3f s\n",
              HumanCount(static_cast<double>(traffic.read)).c_str(),
              HumanCount(static_cast<double>(traffic.written)).c_str(), io, shown,
              std::max(io - step, 0.0));
  if (io > step) PrintGoal(shown / (io - step), 1.10, /*at_least=*/false);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchOffload(const std::string& folder) {
  TESSERA_ASSIGN_OR_RETURN(const Rates rates, BenchFile(folder));
  return BenchSteps(folder, rates);
}

}  // namespace tessera
