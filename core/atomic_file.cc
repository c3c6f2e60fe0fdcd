#include "core/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status.h"

namespace tessera {

absl::Status FileError(const std::string& path, absl::string_view doing, int error) {
  const absl::Status cause = absl::ErrnoToStatus(error, doing);
  return absl::Status(cause.code(), absl::StrCat(path, ": ", cause.message()));
}

absl::Status SyncFolder(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return FileError(path, "cannot open the folder", errno);
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  return result == 0 ? absl::OkStatus() : FileError(path, "cannot write to disk", error);
}

absl::Status AtomicFile::CheckPath(const std::string& path) {
  constexpr char kDoing[] = "cannot create";
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (access(parent.empty() ? "." : parent.c_str(), W_OK | X_OK) != 0) {
    return FileError(path, kDoing, errno);
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return FileError(path, kDoing, EISDIR);
  return absl::OkStatus();
}

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  const std::string partial_path = path + ".partial";
  const int descriptor = open(partial_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError(partial_path, "cannot create", errno);
  return AtomicFile(path, descriptor);
}

AtomicFile::AtomicFile(std::string path, int descriptor)
    : path_(std::move(path)), partial_path_(path_ + ".partial"), descriptor_(descriptor) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      partial_path_(std::move(other.partial_path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(partial_path_.c_str());
}

absl::Status AtomicFile::WriteAt(int64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(partial_path_, "cannot write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Append(absl::string_view bytes) {
  TESSERA_RETURN_IF_ERROR(WriteAt(size_, bytes));
  size_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status AtomicFile::Overwrite(int64_t offset, absl::string_view bytes) {
  TESSERA_CHECK(offset >= 0 && offset + static_cast<int64_t>(bytes.size()) <= size_,
                absl::StrCat("offset ", offset, ", size ", size_));
  return WriteAt(offset, bytes);
}

absl::Status AtomicFile::Commit() {
  if (fsync(descriptor_) != 0) return FileError(partial_path_, "cannot write to disk", errno);
  if (std::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    return FileError(path_, "cannot rename its .partial file to this name", errno);
  }
  close(std::exchange(descriptor_, -1));
  return absl::OkStatus();
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  TESSERA_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TESSERA_RETURN_IF_ERROR(file.Append(content));
  return file.Commit();
}

}  // namespace tessera
