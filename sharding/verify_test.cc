#include "sharding/verify.h"

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "sharding/build.h"
#include "sharding/testing/brute_force.h"
#include "sharding/testing/mutants.h"
#include "sharding/testing/shape_model.h"

namespace tessera {
namespace {

constexpr int64_t kEnough = int64_t{1} << 40;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kSparser = 20;
#else
constexpr int kSparser = 1;
#endif

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

std::string NameOf(const Case& c) {
  return absl::StrCat(NameOf(c.dtype), " blocks ", c.blocks, " stage ", c.options.stage, " world ",
                      c.options.world, " accumulation ", c.options.accumulation,
                      c.options.recompute ? " recompute" : "");
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
    ASSERT_TRUE(Verify(plan, model, kEnough).ok()) << NameOf(c);
    ASSERT_EQ(testing::FindConflict(plan), "") << NameOf(c);
    const std::vector<uint64_t> wanted = testing::RunOnHashes(plan, model);
    testing::ForEachMutant(plan, first, stride, [&](const testing::Mutant& mutant) {
      Tally& tally = tally_[mutant.kind];
      ++tally.mutants;
      const absl::Status status = Verify(mutant.plan, model, kEnough);
      if (!status.ok()) {
        EXPECT_TRUE(IsClear(status, plan)) << Describe(c, mutant) << ": " << status;
        return;
      }
      ++tally.survivors;
      const std::string conflict = testing::FindConflict(mutant.plan);
      EXPECT_EQ(conflict, "") << Describe(c, mutant);
      if (!conflict.empty()) return;
      EXPECT_TRUE(testing::RunOnHashes(mutant.plan, model) == wanted) << Describe(c, mutant);
    });
  }

  const std::map<std::string, Tally>& tally() const { return tally_; }

 private:
  static std::string Describe(const Case& c, const testing::Mutant& mutant) {
    return absl::StrCat(NameOf(c), ", ", mutant.kind, " at ", mutant.detail);
  }

  std::map<std::string, Tally> tally_;
};

TEST(Verify, RefusesEveryFault) {
  Mutation mutation;
  const std::vector<Case> cases = Cases();
  const int kStride = getenv("STRIDE") ? atoi(getenv("STRIDE")) : 40;
  for (size_t i = 0; i < cases.size(); ++i) {
    mutation.Run(cases[i], static_cast<int>(i), kStride * kSparser);
    if (::testing::Test::HasFailure()) break;
  }
  for (const auto& [kind, tally] : mutation.tally()) {
    std::cout << kind << ": " << tally.mutants << " mutants, " << tally.survivors
              << " that change nothing\n";
  }
}

}  // namespace
}  // namespace tessera
