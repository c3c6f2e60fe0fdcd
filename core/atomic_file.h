#ifndef TESSERA_CORE_ATOMIC_FILE_H_
#define TESSERA_CORE_ATOMIC_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// "PATH: DOING: <what errno says>", with the status code that fits `error`.
absl::Status FileError(const std::string& path, absl::string_view doing, int error);

// Makes durable which names a folder has.
absl::Status SyncFolder(const std::string& path);

// A file that appears under its name complete, or not at all: it is written
// beside it as PATH.partial and renamed by Commit. Not thread-safe.
class AtomicFile {
 public:
  // Whether a file could be made there, as far as can be told without making it.
  static absl::Status CheckPath(const std::string& path);

  static absl::StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  // Without a Commit, leaves no trace.
  ~AtomicFile();

  absl::Status Append(absl::string_view bytes);
  // Replaces bytes that were appended before.
  absl::Status Overwrite(int64_t offset, absl::string_view bytes);
  // Makes the content durable and gives the file its name. Call once, last.
  absl::Status Commit();

 private:
  AtomicFile(std::string path, int descriptor);
  absl::Status WriteAt(int64_t offset, absl::string_view bytes);

  std::string path_;
  std::string partial_path_;
  int descriptor_;
  int64_t size_ = 0;
};

// All of `content` at once.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content);

}  // namespace tessera

#endif  // TESSERA_CORE_ATOMIC_FILE_H_
