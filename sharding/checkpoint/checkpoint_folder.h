#ifndef TESSERA_SHARDING_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define TESSERA_SHARDING_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "sharding/checkpoint/manifest.h"

namespace tessera {

// A run's folder of checkpoints. Each is a folder "step-00000200" in it, which has that
// name only while it is whole; before, and while it is removed, it is
// ".step-00000200.partial".
class CheckpointFolder {
 public:
  // Nothing is touched yet.
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;
  ~CheckpointFolder();

  struct Entry {
    int64_t step = 0;
    std::string path;
  };
  // The newest first; none where there is no folder.
  absl::StatusOr<std::vector<Entry>> List() const;

  // Makes the folder, keeps others from it as long as this object lives, and removes what
  // they began and did not finish. FailedPrecondition while another has it.
  absl::Status Acquire();

  // An empty folder for the checkpoint, and its path.
  absl::StatusOr<std::string> Begin(int64_t step);
  // Writes its manifest, once its files are durable, and gives it its name: from then on
  // the checkpoint exists. Takes the place of one of the same step. Returns its path.
  absl::StatusOr<std::string> Publish(const Manifest& manifest);
  // Removes what Begin made.
  void Discard(int64_t step);

  // Removes all but the newest `last` and those of steps that are multiples of `every`
  // (0: none are).
  absl::Status Prune(int64_t last, int64_t every) const;

 private:
  std::string Whole(int64_t step) const;
  std::string Partial(int64_t step) const;

  const std::string path_;
  int lock_ = -1;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_CHECKPOINT_CHECKPOINT_FOLDER_H_
