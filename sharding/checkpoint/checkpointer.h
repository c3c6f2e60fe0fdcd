#ifndef TESSERA_SHARDING_CHECKPOINT_CHECKPOINTER_H_
#define TESSERA_SHARDING_CHECKPOINT_CHECKPOINTER_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "core/communicator.h"
#include "sharding/checkpoint/checkpoint_folder.h"
#include "sharding/checkpoint/manifest.h"
#include "sharding/checkpoint/shard_file.h"
#include "sharding/trainer.h"

namespace tessera {

// Saves a trainer's state while it goes on: a copy is taken between two steps, into
// memory that the plan has for it, and a thread writes it. Every rank calls the same
// methods in the same order, from the thread that trains, between steps.
class Checkpointer {
 public:
  struct Options {
    std::string folder;  // that all ranks see
    int64_t keep_last = 3;
    int64_t keep_every = 0;                  // 0: only the last ones
    std::vector<std::string> settings = {};  // for the manifest
    std::string data = {};
  };

  // What became of a save. All ranks hear of the same.
  struct Outcome {
    int64_t step = 0;
    absl::Status status;         // of the checkpoint: training can go on without it
    std::string path;            // where it is, if status is OK
    int64_t bytes = 0;           // of all ranks
    double blocked_seconds = 0;  // that training stood still on this rank
    double seconds = 0;          // from the copy until it had its name
  };

  // Takes the folder. `trainer`, whose plan has a snapshot, and `communicator` must
  // outlive it. Errors: those of CheckpointFolder::Acquire, on the first rank; Cancelled
  // on the others.
  static absl::StatusOr<std::unique_ptr<Checkpointer>> Create(const Options& options,
                                                              const Trainer& trainer,
                                                              Communicator& communicator);
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;
  ~Checkpointer();

  bool busy() const { return busy_; }

  // Begins to save the state after the steps done. Call it when nothing is being saved.
  // An error is the communicator's; what else goes wrong is in the save's outcome.
  absl::Status Begin();

  // The outcome of the save, once all ranks have written, or after waiting for them.
  absl::StatusOr<std::optional<Outcome>> Poll();
  absl::StatusOr<Outcome> Wait();

 private:
  Checkpointer(const Options& options, const Trainer& trainer, Communicator& communicator);

  absl::Status Copy();
  void Write(const std::string& folder);
  // The first rank's status, or the first that is not OK, on all.
  absl::StatusOr<absl::Status> FirstFailure(const absl::Status& own);
  absl::StatusOr<Outcome> Finish();
  absl::StatusOr<std::string> Publish(const std::vector<std::string>& files, int64_t* bytes);

  const Options options_;
  const Trainer& trainer_;
  Communicator& communicator_;
  const std::vector<SavedPart> parts_;
  CheckpointFolder folder_;

  // Of the save that is going on.
  int64_t step_ = 0;
  double began_ = 0;
  double blocked_ = 0;
  bool busy_ = false;
  std::thread writer_;  // where there is something to write
  std::atomic<bool> written_ = false;
  absl::StatusOr<Manifest::File> file_;  // the thread's until it has ended
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_CHECKPOINT_CHECKPOINTER_H_
