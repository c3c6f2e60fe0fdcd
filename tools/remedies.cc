#include "tools/remedies.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sharding/fit.h"
#include "tools/run_model.h"

namespace tessera {
namespace {

// What a GPU and a core do, in operations per second: only the ratio to the rates of
// moves matters.
double NominalRate(Backend backend) { return backend == Backend::kCuda ? 2e14 : 5e10; }

// One change to a run: how it is written, and what it does.
struct Change {
  std::string setting;
  std::function<void(RunConfig*)> apply;
  double slower = 0;      // share of the arithmetic's time that it adds, beside moves
  bool stronger = false;  // of the same kind as the one before, which is enough if it fits
  bool places = false;    // one category, as the last change places all
};

struct Remedy {
  std::string settings;
  double seconds = 0;
  PlanOptions options;
};

std::string Settings(const std::vector<Change>& changes) {
  return absl::StrJoin(changes, " and ", [](std::string* text, const Change& change) {
    absl::StrAppend(text, change.setting);
  });
}

class Search {
 public:
  Search(const RunConfig& config, const Model& model, int world, Backend backend,
         const TierBytes& capacity)
      : config_(config), model_(model), world_(world), backend_(backend), capacity_(capacity) {}

  std::string Run() {
    const std::vector<Change> changes = Changes();
    std::vector<Remedy> found;
    TryEach({}, changes, 0, &found);
    for (size_t a = 0; a < changes.size() && found.empty(); ++a) {
      TryEach({changes[a]}, changes, a + 1, &found);
    }
    // One after the other, what moves nothing first.
    std::vector<Change> all;
    for (size_t c = 0; c < changes.size() && found.empty(); ++c) {
      if (changes[c].places) continue;
      if (changes[c].stronger) all.pop_back();
      all.push_back(changes[c]);
      Try(all, &found);
      if (!found.empty() || c + 1 == changes.size()) continue;
      std::vector<Change> and_last = all;
      and_last.push_back(changes.back());
      Try(and_last, &found);
    }
    if (found.empty()) return WhatItTakes(all);
    std::stable_sort(found.begin(), found.end(),
                     [](const Remedy& a, const Remedy& b) { return a.seconds < b.seconds; });
    std::vector<std::string> best;
    constexpr size_t kMost = 3;
    for (size_t r = 0; r < found.size() && best.size() < kMost; ++r) {
      if (DoesFit(found[r].options)) best.push_back(found[r].settings);
    }
    if (best.empty()) return WhatItTakes(all);
    return absl::StrCat("it fits with ", absl::StrJoin(best, ", or with "));
  }

 private:
  // Those that change something here.
  std::vector<Change> Changes() const {
    std::vector<Change> changes;
    if (config_.batch.sum_group == 1 && config_.batch.accumulation > 1) {
      const int64_t group = config_.batch.accumulation;
      changes.push_back({absl::StrCat("batch.sum_group: ", group),
                         [group](RunConfig* c) { c->batch.sum_group = group; }});
    }
    if (world_ > 1 && config_.zero.stage < 3) {
      changes.push_back({"zero.stage: 3", [](RunConfig* c) { c->zero.stage = 3; }});
    }
    if (config_.recompute == Recompute::kNone) {
      changes.push_back(
          {"recompute: block", [](RunConfig* c) { c->recompute = Recompute::kBlock; }, 1.0 / 3});
    }
    for (int64_t micro = config_.batch.micro / 2, halvings = 1; micro >= 1;
         micro /= 2, ++halvings) {
      if (config_.batch.micro % micro != 0) break;
      const int64_t passes = config_.batch.accumulation * config_.batch.micro / micro;
      changes.push_back({absl::StrCat("batch.micro: ", micro, " and batch.accumulation: ", passes),
                         [micro, passes](RunConfig* c) {
                           c->batch.micro = micro;
                           c->batch.accumulation = passes;
                         },
                         0.05 * static_cast<double>(halvings), halvings > 1});
    }
    AddPlacements(&changes);
    return changes;
  }

  void AddPlacements(std::vector<Change>* changes) const {
    const auto add = [&](const char* name, RunConfig::Policy RunConfig::Offload::*policy,
                         OffloadTier tier, const char* tier_name) {
      if ((config_.offload.*policy).tier != OffloadTier::kDevice) return;
      Change change;
      change.setting = absl::StrCat("offload.", name, ": ", tier_name);
      change.apply = [policy, tier](RunConfig* c) { c->offload.*policy = {tier, 1}; };
      change.places = true;
      changes->push_back(change);
    };
    for (const auto& [tier, name] :
         {std::pair(OffloadTier::kHost, "host"), std::pair(OffloadTier::kNvme, "nvme")}) {
      if (tier == OffloadTier::kNvme && config_.memory.nvme_path.empty()) continue;
      add("optimizer", &RunConfig::Offload::optimizer, tier, name);
      add("gradients", &RunConfig::Offload::gradients, tier, name);
      add("parameters", &RunConfig::Offload::parameters, tier, name);
      add("activations", &RunConfig::Offload::activations, tier, name);
    }
    const RunConfig::Offload& o = config_.offload;
    const auto fixed = [](const RunConfig::Policy& policy) {
      return policy.tier != OffloadTier::kAuto;
    };
    if (fixed(o.optimizer) || fixed(o.gradients) || fixed(o.parameters) || fixed(o.activations)) {
      changes->push_back({"offload: auto", [](RunConfig* c) {
                            constexpr RunConfig::Policy kAuto = {OffloadTier::kAuto, 1};
                            c->offload = {kAuto, kAuto, kAuto, kAuto};
                          }});
    }
  }

  // The changes that were made, and each of the others from the first on.
  void TryEach(std::vector<Change> made, const std::vector<Change>& others, size_t first,
               std::vector<Remedy>* found) const {
    made.emplace_back();
    bool fits = false;
    for (size_t c = first; c < others.size(); ++c) {
      if (others[c].stronger && (fits || (made.size() > 1 && c == first))) continue;
      made.back() = others[c];
      fits = Try(made, found);
    }
  }

  // The last word, from the run's own plans.
  bool DoesFit(const PlanOptions& options) const {
    const absl::StatusOr<PlanSet> plans = BuildPlans(model_, options);
    return plans.ok() && Fits(*plans, capacity_);
  }

  // Whether the run seems to fit with the changes.
  bool Try(const std::vector<Change>& changes, std::vector<Remedy>* found) const {
    RunConfig config = config_;
    double slower = 0;
    for (const Change& change : changes) {
      change.apply(&config);
      slower += change.slower;
    }
    const absl::StatusOr<PlanOptions> options =
        PlacedOptions(config, model_, world_, backend_, capacity_);
    if (!options.ok()) return false;
    const absl::StatusOr<bool> fits = SeemsToFit(model_, *options, capacity_);
    if (!fits.ok() || !*fits) return false;
    const absl::StatusOr<double> moves = SecondsOfOffload(model_, *options);
    if (!moves.ok()) return false;
    const double arithmetic = model_.flops_per_sequence * static_cast<double>(config.batch.global) /
                              world_ / NominalRate(backend_);
    found->push_back({Settings(changes), *moves + slower * arithmetic, *options});
    return true;
  }

  // Nothing that can be changed here is enough.
  std::string WhatItTakes(const std::vector<Change>& all) const {
    RunConfig config = config_;
    for (const Change& change : all) change.apply(&config);
    constexpr RunConfig::Policy kHost = {OffloadTier::kHost, 1};
    config.offload = {kHost, kHost, kHost, kHost};
    PlanOptions options = MakeTrainerOptions(config, world_).plan;
    options.library_workspace_bytes = LibraryWorkspaceBytes(backend_);
    std::string needs;
    if (const absl::StatusOr<PlanSet> plans = BuildPlans(model_, options); plans.ok()) {
      needs = absl::StrCat(" (", all.empty() ? "it would" : Settings(all), " need ",
                           plans->arena_bytes[Tier::kDevice], " bytes on the device and ",
                           plans->arena_bytes[Tier::kHost], " on the host)");
    }
    return absl::StrCat("no settings make it fit", needs,
                        "; take a smaller model or context, more ranks, or more memory");
  }

  const RunConfig& config_;
  const Model& model_;  // no change is one of the model
  const int world_;
  const Backend backend_;
  const TierBytes& capacity_;
};

}  // namespace

std::string Remedies(const RunConfig& config, const Model& model, int world, Backend backend,
                     const TierBytes& capacity) {
  return Search(config, model, world, backend, capacity).Run();
}

}  // namespace tessera
