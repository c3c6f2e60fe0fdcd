#include "tools/bench/capacity.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
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

bool Fits(const Found& found, const TierBytes& capacity) {
  return std::all_of(kTiers.begin(), kTiers.end(),
                     [&](Tier tier) { return found.bytes[tier] <= capacity[tier]; });
}

// Of the widest two shapes of which half the layers fit: the one that is larger with as
// many layers as fit, at most twice its own.
absl::StatusOr<Found> Largest(const TierBytes& capacity, const PlanOptions& options) {
  std::vector<GptShape> fitting;
  for (GptShape shape : kShapes) {
    shape.layers /= 2;
    TESSERA_ASSIGN_OR_RETURN(const Found found, PlanOf(shape, options));
    if (!Fits(found, capacity)) break;
    fitting.push_back(shape);
  }
  Found best;
  for (size_t s = std::max<size_t>(fitting.size(), 2) - 2; s < fitting.size(); ++s) {
    GptShape shape = fitting[s];
    int64_t fits = shape.layers;
    int64_t too_many = 4 * shape.layers + 1;
    while (too_many - fits > 1) {
      shape.layers = (fits + too_many) / 2;
      TESSERA_ASSIGN_OR_RETURN(const Found found, PlanOf(shape, options));
      (Fits(found, capacity) ? fits : too_many) = shape.layers;
    }
    shape.layers = fits;
    TESSERA_ASSIGN_OR_RETURN(const Found found, PlanOf(shape, options));
    if (found.parameters > best.parameters) best = found;
  }
  return best;
}

// "2.39B; 41.5 GB host".
std::string Cell(const Found& found) {
  if (found.parameters == 0) return "none";
  const auto short_of = [](double thousandths, const char* small, const char* large) {
    return thousandths < 999.5 ? absl::StrFormat("%.3g%s", thousandths, small)
                               : absl::StrFormat("%.3g%s", thousandths / 1000, large);
  };
  std::string text = short_of(found.parameters / 1e9, "B", "T");
  for (const Tier tier : {Tier::kHost, Tier::kNvme}) {
    const double gigabytes = static_cast<double>(found.bytes[tier]) / 1e9;
    if (gigabytes < 0.1) continue;
    absl::StrAppend(&text, "; ", short_of(gigabytes, " GB ", " TB "),
                    tier == Tier::kHost ? "host" : "NVMe");
  }
  return text;
}

}  // namespace

absl::Status PrintCapacities() {
  constexpr std::array<int, 6> kGigabytes = {8, 16, 24, 40, 80, 141};
  constexpr int64_t kGigabyte = 1'000'000'000;
  constexpr int64_t kHostGigabytes = 256;
  constexpr int64_t kNvmeGigabytes = 4000;
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
        TierBytes capacity;
        capacity[Tier::kDevice] = gigabytes * kGigabyte - kReserve;
        capacity[Tier::kHost] = kHostGigabytes * kGigabyte;
        capacity[Tier::kNvme] = kNvmeGigabytes * kGigabyte;
        TESSERA_ASSIGN_OR_RETURN(const Found found, Largest(capacity, options));
        std::printf(" %s |", Cell(found).c_str());
        std::fflush(stdout);
      }
      std::printf("\n");
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
