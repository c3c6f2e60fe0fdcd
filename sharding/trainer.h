#ifndef TESSERA_SHARDING_TRAINER_H_
#define TESSERA_SHARDING_TRAINER_H_

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/collectives.h"
#include "core/communicator.h"
#include "core/data/batch_source.h"
#include "core/device.h"
#include "models/module.h"
#include "sharding/executor.h"
#include "sharding/plan.h"
#include "sharding/price.h"
#include "sharding/state_memory.h"

namespace tessera {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;  // of the global gradient; 0 for none
};

struct TrainerOptions {
  PlanOptions plan;  // `kind` and `world` are set by the trainer
  AdamWOptions optimizer;
  uint64_t seed = 1;
  TierBytes capacity = kUnlimitedTiers;
  std::string nvme_folder;  // for the NVMe tier's file, where the plan needs one
  // If set, called with the cause of a failure, on the rank where it happened and
  // from any thread, before the other ranks hear of it.
  std::function<void(const absl::Status&)> on_failure;
};

struct StepResult {
  double loss = 0;           // mean over the global batch's targets
  double gradient_norm = 0;  // before clipping
  double seconds = 0;
  double exposed_communication_seconds = 0;
  int64_t bytes_sent = 0;
  int64_t control_bytes_sent = 0;
  TierTraffic traffic;
};

// The plans that a trainer of these options runs, without running them: training,
// evaluation and, if the model can predict, prediction; and the arenas they share.
struct PlanSet {
  Plan train, evaluate, predict;
  TierBytes arena_bytes;
};
absl::StatusOr<PlanSet> BuildPlans(const Model& model, PlanOptions options);

// Trains a model, as one rank of a world. Every rank calls the same methods in the
// same order. A method that fails leaves the trainer of no use, on every rank: the
// one where it failed returns the cause, the others Cancelled.
class Trainer {
 public:
  // Plans, verifies, compares the plan with the other ranks', allocates and
  // initialises. `device` (with kLanes lanes), `communicator` and `collectives` must
  // outlive it. `communicator` is for what ranks have to say to each other beside
  // the steps; `collectives` works on the device's memory, by default through
  // `communicator`, which is for devices whose memory is the host's.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(Model model, const TrainerOptions& options,
                                                         Device& device, Communicator& communicator,
                                                         Collectives* collectives = nullptr);

  // Uses every kernel and connection once, on the first batch of `source`, and
  // leaves the state as it was: what libraries take, they have taken afterwards.
  absl::Status WarmUp(BatchSource& source);

  // One training step on the next global batch of `source`.
  absl::StatusOr<StepResult> Step(BatchSource& source, double learning_rate);

  // The mean loss over the first `micro_batches` micro-batches of `source`, rounded
  // up to a multiple of the world.
  absl::StatusOr<double> Evaluate(BatchSource& source, int64_t micro_batches);

  // Runs the model's predictor on the first micro-batch of `source`, the same on
  // every rank; the result is valid until the next call.
  absl::StatusOr<Tensor> Predict(BatchSource& source);

  // A parameter's fp32 values (master weights), or a moment's, whole, on every rank.
  enum class State : uint8_t { kMaster, kMomentum, kVariance };
  static constexpr std::array<State, 3> kStates = {State::kMaster, State::kMomentum,
                                                   State::kVariance};
  absl::StatusOr<std::vector<float>> Read(State state, int unit, int parameter);

  // Replaces elements [first, first + values.size()) of those values, as far as this
  // rank holds them. Writing master weights sets the model's parameters too.
  absl::Status Write(State state, int unit, int parameter, int64_t first,
                     absl::Span<const float> values);

  // The elements of a parameter, [begin, end), that Write takes something of.
  ElementRange Held(State state, int unit, int parameter) const;

  // Copies elements of a parameter, all from this rank's shard of the unit, without the
  // other ranks.
  absl::Status ReadOwn(State state, int unit, int parameter, int64_t first,
                       absl::Span<float> values) const;

  // Host memory of the plan's for what this rank saves; empty without options.plan.snapshot.
  absl::Span<std::byte> snapshot() const;

  // Goes on as if so many steps had been done, once what they left has been written.
  void ResumeAfter(int64_t steps) { steps_done_ = steps; }

  // A digest of all master weights: equal exactly when the weights are (but for
  // chance), whatever the world and the stage.
  absl::StatusOr<uint64_t> WeightsDigest();

  const Model& model() const { return model_; }
  const PlanSet& plans() const { return plans_; }
  const Executor& executor() const { return *trainer_; }
  // What a user should know about the NVMe tier here; empty if there is nothing.
  std::string nvme_note() const { return nvme_ == nullptr ? "" : nvme_->note(); }
  int64_t steps_done() const { return steps_done_; }
  int64_t sequences_per_step() const;
  int64_t targets_per_step() const;

 private:
  Trainer(Model model, const TrainerOptions& options, Device& device, Communicator& communicator,
          Collectives* collectives)
      : model_(std::move(model)),
        options_(options),
        device_(device),
        communicator_(communicator),
        host_collectives_(communicator),
        collectives_(collectives != nullptr ? *collectives : host_collectives_) {}

  absl::Status ComparePlans();
  absl::Status SetUp();
  absl::Status Initialize();
  absl::Status InitializeParameter(int unit, int parameter, uint32_t stream);
  absl::Status Allocate();
  // The parts of the plan's state in which the values stand in fp32.
  Role RoleOf(State state) const;

  const Model model_;
  const TrainerOptions options_;
  Device& device_;
  Communicator& communicator_;
  HostCollectives host_collectives_;
  Collectives& collectives_;
  PlanSet plans_;
  std::unique_ptr<NvmeFile> nvme_;
  Arenas arenas_;
  std::unique_ptr<StateMemory> state_;
  std::unique_ptr<Executor> trainer_, evaluator_, predictor_;
  int64_t steps_done_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_TRAINER_H_
