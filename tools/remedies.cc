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

// One change to a run. Those of a kind take each other's place, the later the stronger.
struct Change {
  enum Kind { kStage, kRecompute, kMicro, kSums, kPlace, kPlaceAll };
  Kind kind;
  // Makes it after those before it; returns how it is written, "" where nothing changes.
  std::function<std::string(RunConfig*)> make;
  double slower = 0;  // share of the arithmetic's time that it adds, beside moves
};

struct Remedy {
  std::string settings;
  double seconds = 0;
  PlanOptions options;
};

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
      if (changes[c].kind == Change::kPlace || changes[c].kind == Change::kPlaceAll) continue;
      if (!all.empty() && all.back().kind == changes[c].kind) all.pop_back();
      all.push_back(changes[c]);
      Try(all, &found);
      if (!found.empty()) continue;
      std::vector<Change> and_last = all;
      and_last.push_back(changes.back());
      Try(and_last, &found);
    }
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
  std::vector<Change> Changes() const {
    std::vector<Change> changes;
    for (int64_t stage = config_.zero.stage + 1; stage <= 3 && world_ > 1; ++stage) {
      changes.push_back({Change::kStage,
                         [stage](RunConfig* c) {
                           c->zero.stage = stage;
                           return absl::StrCat("zero.stage: ", stage);
                         },
                         stage == 3 ? 0.05 : 0.0});
    }
    if (config_.recompute == Recompute::kNone) {
      changes.push_back({Change::kRecompute,
                         [](RunConfig* c) {
                           c->recompute = Recompute::kBlock;
                           return std::string("recompute: block");
                         },
                         1.0 / 3});
    }
    for (int64_t micro = config_.batch.micro / 2, halvings = 1; micro >= 1;
         micro /= 2, ++halvings) {
      if (config_.batch.micro % micro != 0) break;
      const int64_t passes = config_.batch.accumulation * config_.batch.micro / micro;
      changes.push_back({Change::kMicro,
                         [micro, passes](RunConfig* c) {
                           c->batch.micro = micro;
                           c->batch.accumulation = passes;
                           return absl::StrCat("batch.micro: ", micro,
                                               " and batch.accumulation: ", passes);
                         },
                         0.05 * static_cast<double>(halvings)});
    }
    // One pending sum instead of a tree of them.
    changes.push_back({Change::kSums, [world = world_](RunConfig* c) {
                         const int64_t leaves =
                             c->batch.accumulation * (c->zero.stage >= 2 ? world : 1);
                         if (c->batch.sum_group >= leaves) return std::string();
                         c->batch.sum_group = leaves;
                         return absl::StrCat("batch.sum_group: ", leaves);
                       }});
    AddPlacements(&changes);
    return changes;
  }

  void AddPlacements(std::vector<Change>* changes) const {
    const auto add = [&](const char* name, RunConfig::Policy RunConfig::Offload::*policy,
                         OffloadTier tier, const char* tier_name) {
      if ((config_.offload.*policy).tier != OffloadTier::kDevice) return;
      changes->push_back({Change::kPlace, [=](RunConfig* c) {
                            c->offload.*policy = {tier, 1};
                            return absl::StrCat("offload.", name, ": ", tier_name);
                          }});
    };
    for (const auto& [tier, name] :
         {std::pair(OffloadTier::kHost, "host"), std::pair(OffloadTier::kNvme, "nvme")}) {
      if (tier == OffloadTier::kNvme && !HasNvme()) continue;
      add("optimizer", &RunConfig::Offload::optimizer, tier, name);
      add("gradients", &RunConfig::Offload::gradients, tier, name);
      add("parameters", &RunConfig::Offload::parameters, tier, name);
      add("activations", &RunConfig::Offload::activations, tier, name);
    }
    changes->push_back({Change::kPlaceAll, [](RunConfig* c) {
                          RunConfig::Offload& o = c->offload;
                          bool changes = false;
                          for (RunConfig::Policy* policy :
                               {&o.optimizer, &o.gradients, &o.parameters, &o.activations}) {
                            changes = changes || policy->tier != OffloadTier::kAuto;
                            *policy = {OffloadTier::kAuto, 1};
                          }
                          return std::string(changes ? "offload: auto" : "");
                        }});
  }

  bool HasNvme() const { return !config_.memory.nvme_path.empty(); }

  // The changes that were made, and each of the others from the first on that goes with
  // them: of a kind, the weakest that is enough.
  void TryEach(const std::vector<Change>& made, const std::vector<Change>& others, size_t first,
               std::vector<Remedy>* found) const {
    bool fits = false;
    for (size_t c = first; c < others.size(); ++c) {
      const Change::Kind kind = others[c].kind;
      const bool enough = fits && others[c - 1].kind == kind && kind != Change::kPlace;
      const bool of_a_kind = !made.empty() && made.back().kind == kind && kind != Change::kPlace;
      if (enough || of_a_kind) continue;
      std::vector<Change> with = made;
      with.push_back(others[c]);
      fits = Try(with, found);
    }
  }

  // The last word, from the run's own plans.
  bool DoesFit(const PlanOptions& options) const {
    const absl::StatusOr<PlanSet> plans = BuildPlans(model_, options);
    return plans.ok() && Fits(*plans, capacity_);
  }

  // Makes the changes of a run; how they are written, or nothing if the last changes nothing.
  std::vector<std::string> Make(const std::vector<Change>& changes, RunConfig* config) const {
    std::vector<std::string> settings;
    settings.reserve(changes.size());
    for (const Change& change : changes) settings.push_back(change.make(config));
    if (!settings.empty() && settings.back().empty()) return {};
    settings.erase(std::remove(settings.begin(), settings.end(), ""), settings.end());
    return settings;
  }

  // Whether the run seems to fit with the changes.
  bool Try(const std::vector<Change>& changes, std::vector<Remedy>* found) const {
    RunConfig config = config_;
    const std::vector<std::string> settings = Make(changes, &config);
    if (settings.empty()) return false;
    const absl::StatusOr<PlanOptions> options =
        PlacedOptions(config, model_, world_, backend_, capacity_);
    if (!options.ok()) return false;
    const absl::StatusOr<bool> fits = SeemsToFit(model_, *options, capacity_);
    if (!fits.ok() || !*fits) return false;
    const absl::StatusOr<double> moves = SecondsOfOffload(model_, *options);
    if (!moves.ok()) return false;
    const double arithmetic = model_.flops_per_sequence * static_cast<double>(config.batch.global) /
                              world_ / NominalRate(backend_);
    double slower = 0;
    for (const Change& change : changes) slower += change.slower;
    found->push_back({absl::StrJoin(settings, " and "), *moves + slower * arithmetic, *options});
    return true;
  }

  // Nothing that can be changed here is enough: what all of it would need, with as much as
  // can be off the device; and how many ranks would do.
  std::string WhatItTakes(std::vector<Change> changes) const {
    RunConfig config = config_;
    changes.push_back(
        {Change::kPlaceAll, [this](RunConfig* c) {
           const RunConfig::Policy away = {HasNvme() ? OffloadTier::kNvme : OffloadTier::kHost, 1};
           c->offload = {away, away, away, away};
           return absl::StrCat("offload: ", HasNvme() ? "nvme" : "host");
         }});
    const std::vector<std::string> settings = Make(changes, &config);
    const absl::StatusOr<PlanSet> plans = BuildPlans(model_, OptionsOf(config, world_));
    if (!plans.ok()) return "no settings make it fit; take a smaller model or context";
    const TierBytes& needs = plans->arena_bytes;
    std::string text = absl::StrCat("no settings make it fit (", absl::StrJoin(settings, " and "),
                                    " need ", needs[Tier::kDevice], " bytes on the device, ",
                                    needs[Tier::kHost], " on the host");
    if (HasNvme()) absl::StrAppend(&text, " and ", needs[Tier::kNvme], " on NVMe");
    absl::StrAppend(&text, "); take a smaller model or context, or more memory");
    if (const int ranks = EnoughRanks(config); ranks > 0) {
      absl::StrAppend(&text, ", or ", ranks, " ranks, each with as much memory, and zero.stage: 3");
    }
    return text;
  }

  PlanOptions OptionsOf(const RunConfig& config, int world) const {
    PlanOptions options = MakeTrainerOptions(config, world).plan;
    options.library_workspace_bytes = LibraryWorkspaceBytes(backend_);
    return options;
  }

  // The fewest ranks, doubling those there are, among which the batch can be shared and
  // whose parts fit; 0 if there are none.
  int EnoughRanks(RunConfig config) const {
    constexpr int kMostRanksTried = 1024;
    config.zero.stage = 3;
    for (int ranks = 2 * world_; ranks <= kMostRanksTried; ranks *= 2) {
      if (config.batch.global % (config.batch.micro * ranks) != 0) return 0;
      config.batch.accumulation = config.batch.global / (config.batch.micro * ranks);
      const PlanOptions options = OptionsOf(config, ranks);
      const absl::StatusOr<bool> fits = SeemsToFit(model_, options, capacity_);
      if (fits.ok() && *fits && DoesFit(options)) return ranks;
    }
    return 0;
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
