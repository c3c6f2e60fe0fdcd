#ifndef TESSERA_TESTS_SUPPORT_TRAINING_H_
#define TESSERA_TESTS_SUPPORT_TRAINING_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/collectives.h"
#include "core/communicator.h"
#include "core/data/batch_source.h"
#include "core/status.h"
#include "models/module.h"
#include "sharding/trainer.h"

namespace tessera::testing {

// Sequences of tokens that are a function of their position alone; every third
// follows a pattern, so that there is something to learn.
class SyntheticTokens : public BatchSource {
 public:
  explicit SyntheticTokens(int vocabulary) : vocabulary_(vocabulary) {}
  absl::Status Read(int64_t first_sequence, int64_t sequences,
                    absl::Span<const Tensor> fields) override;

 private:
  const int vocabulary_;
};

// What a run leaves that must be the same bits in every configuration.
struct Outcome {
  std::vector<double> losses;
  std::vector<double> norms;
  double validation_loss = 0;
  std::vector<float> weights;  // all of them, master values
  uint64_t weights_digest = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// The first difference between two outcomes, for a failure message.
std::string Difference(const Outcome& a, const Outcome& b);

// What a rank computes on.
struct RankDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<Collectives> collectives;  // null where the communicator will do
};

struct RunOptions {
  TrainerOptions trainer;
  int threads = 1;
  uint64_t jitter_seed = 0;
  int steps = 3;
  int64_t micro_batches = 8;  // of the global batch; accumulation follows
  double learning_rate = 1e-2;
  // Called by every rank before the first step and after the last.
  std::function<absl::Status(Trainer&, Communicator&)> before, after;
  // Null for a CPU with the threads and delays above.
  std::function<absl::StatusOr<RankDevice>(Communicator&)> make_device;
};

using RankFunction = std::function<void(Communicator&)>;

// Calls `run` in `world` threads, each a rank of its own, and waits for them.
void InThreadWorld(int world, const RankFunction& run);

// Trains `model` as one rank of `communicator`'s world. Checks on the way that
// memory and traffic are the plan's.
absl::StatusOr<Outcome> TrainAsRank(const Model& model, const RunOptions& options,
                                    BatchSource& source, Communicator& communicator);

// The same in `world` ranks that are threads of this process; the first rank's
// outcome, after checking that the others' are the same.
absl::StatusOr<Outcome> TrainInThreads(
    const Model& model, const RunOptions& options, BatchSource& source, int world,
    const std::function<void(int, const RankFunction&)>& in_world = InThreadWorld);

// Outcomes that others are compared with, of runs that have nothing to hide: each is
// made once.
template <typename Key>
class References {
 public:
  // The outcome of `train()`, or of an earlier one for the same key.
  template <typename Train>
  absl::StatusOr<Outcome> Of(const Key& key, Train train) {
    if (const auto known = outcomes_.find(key); known != outcomes_.end()) return known->second;
    TESSERA_ASSIGN_OR_RETURN(Outcome outcome, train());
    return outcomes_.emplace(key, std::move(outcome)).first->second;
  }

 private:
  std::map<Key, Outcome> outcomes_;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SUPPORT_TRAINING_H_
