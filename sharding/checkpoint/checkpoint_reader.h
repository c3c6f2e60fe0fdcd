#ifndef TESSERA_SHARDING_CHECKPOINT_CHECKPOINT_READER_H_
#define TESSERA_SHARDING_CHECKPOINT_CHECKPOINT_READER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sharding/checkpoint/manifest.h"

namespace tessera {

// A checkpoint on disk. Bytes are checked before they are used: errors are DataLoss, with
// file and offset, where a file is not what was written. Not thread-safe.
class CheckpointReader {
 public:
  // Reads and checks the manifest in `folder`, and that its files are there in their sizes.
  // NotFound where there is no manifest.
  static absl::StatusOr<CheckpointReader> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }

  // Elements [first, end) of a tensor.
  struct Range {
    int64_t first = 0;
    int64_t end = 0;
  };
  // Which of a tensor's elements are wanted; and what takes them, some at a time and each
  // once: values of elements from `first` on.
  using Wanted = std::function<Range(const std::string& tensor)>;
  using Take = std::function<absl::Status(const std::string& tensor, int64_t first,
                                          absl::Span<const float> values)>;
  // Goes through the files from their beginnings, once, and reads the chunks that hold
  // what is wanted. Errors: those of `take`, too.
  absl::Status Read(const Wanted& wanted, const Take& take) const;

  // A whole tensor, which there must be.
  absl::StatusOr<std::vector<float>> ReadTensor(const Manifest::Tensor& tensor) const;

  // Reads all chunks of all files.
  absl::Status Verify() const;

 private:
  CheckpointReader(std::string folder, Manifest manifest)
      : folder_(std::move(folder)), manifest_(std::move(manifest)) {}

  std::string folder_;
  Manifest manifest_;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_CHECKPOINT_CHECKPOINT_READER_H_
