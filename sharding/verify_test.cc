#include "sharding/verify.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/sanitizers.h"
#include "gtest/gtest.h"
#include "sharding/build.h"
#include "sharding/testing/brute_force.h"
#include "sharding/testing/mutants.h"
#include "sharding/testing/shape_model.h"

namespace tessera {
namespace {

constexpr int kSparser = kSanitized ? 20 : 1;  // every so many cases

struct Case {
  DType dtype = DType::kFloat32;
  int blocks = 1;
  PlanOptions options;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (int stage = 0; stage <= 3; ++stage) {
    for (int world : {1, 2, 3}) {
      for (int accumulation : {1, 2, 3}) {
        for (bool recompute : {false, true}) {
          for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
            Case c;
            c.dtype = dtype;
            c.blocks = 1 + (stage + world + accumulation) % 2;
            c.options.stage = stage;
            c.options.world = world;
            c.options.accumulation = accumulation;
            c.options.recompute = recompute;
            c.options.bucket_bytes = 4096;
            c.options.prefetch = accumulation - 1;
            cases.push_back(c);
          }
        }
      }
    }
  }
  return cases;
}

// What lives where, and is moved.
std::vector<Case> OffloadCases() {
  const Placement host = {Tier::kHost, 1};
  const Placement nvme = {Tier::kNvme, 1};
  const Placement most = {Tier::kHost, 0.7};
  std::vector<Case> cases;
  for (const Offload& offload :
       {Offload{host, {}, {}, {}}, Offload{nvme, nvme, nvme, nvme}, Offload{most, host, {}, host},
        Offload{nvme, host, most, {}}, Offload{{}, nvme, host, nvme}}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (int world : {1, 2}) {
        Case c;
        c.dtype = (stage + world) % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
        c.options.stage = stage;
        c.options.world = world;
        c.options.accumulation = world == 1 ? 2 : 1 + stage % 2;
        c.options.recompute = stage % 2 == 0;
        c.options.bucket_bytes = 4096;
        c.options.tile_elements = kTileAlignment;
        c.options.offload = offload;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::string NameOf(const Case& c) {
  return absl::StrCat(NameOf(c.dtype), " blocks ", c.blocks, " stage ", c.options.stage, " world ",
                      c.options.world, " accumulation ", c.options.accumulation,
                      c.options.recompute ? " recompute" : "", " optimizer ",
                      NameOf(c.options.offload.optimizer.tier), " gradients ",
                      NameOf(c.options.offload.gradients.tier), " parameters ",
                      NameOf(c.options.offload.parameters.tier), " activations ",
                      NameOf(c.options.offload.activations.tier));
}

// A refusal names the rule, an instruction, and a buffer.
bool IsClear(const absl::Status& status, const Plan& plan) {
  const std::string message(status.message());
  if (message.rfind("rule ", 0) != 0 || message.find('%') == std::string::npos) return false;
  for (const Buffer& buffer : plan.buffers) {
    if (message.find(buffer.name) != std::string::npos) return true;
  }
  return false;
}

struct Tally {
  int mutants = 0;
  int survivors = 0;
};

class Mutation {
 public:
  void Run(const Case& c, int first, int stride) {
    const Model model = testing::MakeShapeModel(c.dtype, c.blocks);
    const Plan plan = *BuildPlan(model, c.options);
    ASSERT_TRUE(Verify(plan, model, kUnlimitedTiers).ok()) << NameOf(c);
    ASSERT_EQ(testing::FindConflict(plan), "") << NameOf(c);
    const std::vector<uint64_t> wanted = testing::RunOnHashes(plan, c.dtype);
    testing::ForEachMutant(plan, first, stride, [&](const testing::Mutant& mutant) {
      Tally& tally = tally_[mutant.kind];
      ++tally.mutants;
      const absl::Status status = Verify(mutant.plan, model, kUnlimitedTiers);
      if (!status.ok()) {
        EXPECT_TRUE(IsClear(status, plan)) << Describe(c, mutant) << ": " << status;
        return;
      }
      ++tally.survivors;
      const std::string conflict = testing::FindConflict(mutant.plan);
      EXPECT_EQ(conflict, "") << Describe(c, mutant);
      if (!conflict.empty()) return;
      EXPECT_TRUE(testing::RunOnHashes(mutant.plan, c.dtype) == wanted) << Describe(c, mutant);
    });
  }

  const std::map<std::string, Tally>& tally() const { return tally_; }

 private:
  static std::string Describe(const Case& c, const testing::Mutant& mutant) {
    return absl::StrCat(NameOf(c), ", ", mutant.kind, " at ", mutant.detail);
  }

  std::map<std::string, Tally> tally_;
};

// Every kind's most survivors, in percent. What is not here must have none. These may
// change nothing, because
//   what they do twice gives the same: it is overwritten with itself;
//   the neighbour in the lane has nothing to do with it;
//   waits keep the order that the lane kept;
//   the place that a buffer moves to is free as long as it lives;
//   the saved tensors or workspace end up elsewhere in the same buffer;
//   what a wait kept back is only memory that would be held for longer than planned;
//   a call's recomputation differs from itself in nothing but its name (last call).
const std::map<std::string, int>& MostSurvivors() {
  static const auto& most = *new std::map<std::string, int>{
      {"accumulate doubled", 100},
      {"accumulate re-ordered", 100},
      {"clear_padding doubled", 100},
      {"clear_padding re-ordered", 100},
      {"collectives swapped", 5},
      {"copy_in doubled", 100},
      {"copy_in re-ordered", 100},
      {"copy_out doubled", 100},
      {"copy_out re-ordered", 100},
      {"read doubled", 100},
      {"read re-ordered", 100},
      {"write doubled", 100},
      {"write re-ordered", 100},
      {"fold_contributions doubled", 100},
      {"fold_contributions re-ordered", 50},
      {"gather_gradient re-ordered", 100},
      {"lane", 10},
      {"offset of another", 25},
      {"offset shifted", 25},
      {"recompute", 25},
      {"release moved", 25},
      {"square_norm doubled", 25},
      {"square_norm re-ordered", 50},
      {"sum re-ordered", 50},
      {"tier", 25},
      {"unit", 3},
      {"update re-ordered", 100},
      {"wait removed", 15},
      {"write shifted", 5},
  };
  return most;
}

void Report(const Mutation& mutation) {
  for (const auto& [kind, tally] : mutation.tally()) {
    std::cout << kind << ": " << tally.mutants << " mutants, " << tally.survivors
              << " that change nothing\n";
    const auto most = MostSurvivors().find(kind);
    const int percent = most == MostSurvivors().end() ? 0 : most->second;
    if (kSparser > 1) continue;  // too few to judge by
    EXPECT_LE(100 * tally.survivors, percent * tally.mutants) << kind;
  }
}

TEST(Verify, RefusesEveryFault) {
  Mutation mutation;
  int number = 0;
  for (const Case& c : Cases()) {
    const bool every = kSparser == 1 && c.options.world == 2 && c.options.accumulation == 2 &&
                       c.options.recompute && c.dtype == DType::kBFloat16;
    mutation.Run(c, number++, every ? 1 : 40 * kSparser);
    if (HasFailure()) break;
  }
  Report(mutation);
}

TEST(Verify, RefusesEveryFaultOfOffload) {
  Mutation mutation;
  int number = 0;
  for (const Case& c : OffloadCases()) {
    const bool all = std::getenv("TESSERA_LONG") != nullptr;
    const bool every = kSparser == 1 && (all || (c.options.world == 2 && c.options.stage == 3));
    mutation.Run(c, number++, every ? 1 : 40 * kSparser);
    if (HasFailure()) break;
  }
  Report(mutation);
}

}  // namespace
}  // namespace tessera
