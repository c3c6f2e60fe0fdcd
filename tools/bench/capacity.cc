#include "tools/bench/capacity.h"

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/device.h"
#include "core/metrics/progress_line.h"
#include "core/status.h"
#include "models/gpt2.h"
#include "sharding/build.h"

namespace tessera {
namespace {

struct GptShape {
  int64_t layers, heads, width;
};

// GPT-2's four sizes and GPT-3's larger ones (Brown et al., "Language models are few-shot
// learners", table 2.1), and on by width.
constexpr std::array<GptShape, 12> kShapes = {{{12, 12, 768},
                                               {24, 16, 1024},
                                               {36, 20, 1280},
                                               {48, 25, 1600},
                                               {32, 32, 2560},
                                               {32, 32, 4096},
                                               {40, 40, 5120},
                                               {48, 56, 7168},
                                               {64, 72, 9216},
                                               {96, 96, 12288},
                                               {128, 160, 20480},
                                               {128, 256, 32768}}};

struct Tiers {
  const char* name;
  Offload offload;
};

std::vector<Tiers> AllTiers() {
  const Placement host = {Tier::kHost, 1};
  const Placement nvme = {Tier::kNvme, 1};
  return {{"all on the device", {}},
          {"optimizer and gradients on the host", {host, host, {}, {}}},
          {"everything on the host", {host, host, host, host}},
          {"everything on NVMe", {nvme, nvme, nvme, nvme}}};
}

// A model, and what a rank takes of each tier for it.
struct Found {
  double parameters = 0;
  TierBytes bytes;
};

// What a step of the model takes of each tier.
absl::StatusOr<Found> PlanOf(const GptShape& shape, const PlanOptions& options) {
  TESSERA_ASSIGN_OR_RETURN(
      const Model model,
      MakeGpt2({shape.layers, shape.heads, shape.width, 1024, 50257, 0}, DType::kBFloat16));
  TESSERA_ASSIGN_OR_RETURN(const Plan plan, BuildPlan(model, options));
  Found found;
  found.bytes = plan.arena_bytes;
  for (const UnitPartition& unit : plan.partitions) {
    for (int64_t size : unit.sizes) found.parameters += static_cast<double>(size);
  }
  return found;
}

// The largest of the shapes that fits, and then as many more layers as fit.
absl::StatusOr<Found> Largest(int64_t device, const PlanOptions& options) {
  Found best;
  const GptShape* widest = nullptr;
  for (const GptShape& shape : kShapes) {
    TESSERA_ASSIGN_OR_RETURN(const Found found, PlanOf(shape, options));
    if (found.bytes[Tier::kDevice] > device) break;
    best = found;
    widest = &shape;
  }
  if (widest == nullptr) return best;
  int64_t fits = widest->layers;
  int64_t too_many = 3 * widest->layers;
  while (too_many - fits > 1 + widest->layers / 16) {
    GptShape shape = *widest;
    shape.layers = (fits + too_many) / 2;
    TESSERA_ASSIGN_OR_RETURN(const Found found, PlanOf(shape, options));
    const bool enough = found.bytes[Tier::kDevice] <= device;
    (enough ? fits : too_many) = shape.layers;
    if (enough) best = found;
  }
  return best;
}

std::string Cell(const Found& found) {
  if (found.parameters == 0) return "none";
  std::string text = absl::StrFormat("%.3gB", found.parameters / 1e9);
  for (const Tier tier : {Tier::kHost, Tier::kNvme}) {
    const double gigabytes = static_cast<double>(found.bytes[tier]) / 1e9;
    if (gigabytes >= 0.1) {
      text += absl::StrFormat(", %.3g GB %s", gigabytes, tier == Tier::kHost ? "host" : "NVMe");
    }
  }
  return text;
}

}  // namespace

absl::Status PrintCapacities() {
  constexpr std::array<int, 6> kGigabytes = {8, 16, 24, 40, 80, 141};
  constexpr int64_t kReserve = int64_t{512} << 20;
  struct World {
    int ranks, stage;
  };
  constexpr std::array<World, 5> kWorlds = {{{1, 0}, {8, 0}, {8, 1}, {8, 2}, {8, 3}}};
  for (const World& world : kWorlds) {
    std::printf("\n%d rank%s, stage %d\n\n| |", world.ranks, world.ranks == 1 ? "" : "s",
                world.stage);
    for (int gigabytes : kGigabytes) std::printf(" %d GB |", gigabytes);
    std::printf("\n|---|---|---|---|---|---|---|\n");
    for (const Tiers& tiers : AllTiers()) {
      std::printf("| %s |", tiers.name);
      for (int gigabytes : kGigabytes) {
        PlanOptions options;
        options.world = world.ranks;
        options.stage = world.stage;
        options.recompute = true;
        options.offload = tiers.offload;
        options.library_workspace_bytes = LibraryWorkspaceBytes(Backend::kCuda);
        TESSERA_ASSIGN_OR_RETURN(const Found found,
                                 Largest(gigabytes * int64_t{1'000'000'000} - kReserve, options));
        std::printf(" %s |", Cell(found).c_str());
        std::fflush(stdout);
      }
      std::printf("\n");
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
