#include "sharding/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/atomic_file.h"
#include "core/status.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kPrefix = "step-";
constexpr absl::string_view kPartialSuffix = ".partial";

std::string NameOf(int64_t step) { return absl::StrFormat("step-%08d", step); }

}  // namespace

CheckpointFolder::~CheckpointFolder() {
  if (lock_ >= 0) close(lock_);
}

std::string CheckpointFolder::Whole(int64_t step) const {
  return absl::StrCat(path_, "/", NameOf(step));
}

std::string CheckpointFolder::Partial(int64_t step) const {
  return absl::StrCat(path_, "/.", NameOf(step), kPartialSuffix);
}

absl::StatusOr<std::vector<CheckpointFolder::Entry>> CheckpointFolder::List() const {
  std::vector<Entry> entries;
  std::error_code error;
  fs::directory_iterator folder(path_, error);
  if (error == std::errc::no_such_file_or_directory) return entries;
  if (error) return FileError(path_, "cannot list the folder of checkpoints", error.value());
  for (const fs::directory_entry& entry : folder) {
    const std::string name = entry.path().filename();
    int64_t step = 0;
    if (!absl::StartsWith(name, kPrefix) || !absl::SimpleAtoi(name.substr(kPrefix.size()), &step) ||
        NameOf(step) != name) {
      continue;
    }
    entries.push_back({step, entry.path()});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.step > b.step; });
  return entries;
}

absl::Status CheckpointFolder::Acquire() {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) return FileError(path_, "cannot make the folder of checkpoints", error.value());
  const std::string lock = absl::StrCat(path_, "/.lock");
  lock_ = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) return FileError(lock, "cannot create", errno);
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(lock, "cannot lock", errno);
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": another run writes its checkpoints there; give this one a folder ",
                     "of its own (checkpoint.folder)"));
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, absl::StrCat(".", kPrefix)) &&
        absl::EndsWith(name, kPartialSuffix)) {
      fs::remove_all(entry.path(), error);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CheckpointFolder::Begin(int64_t step) {
  const std::string partial = Partial(step);
  std::error_code error;
  fs::remove_all(partial, error);
  if (!fs::create_directory(partial, error)) {
    return FileError(partial, "cannot make the folder of a checkpoint", error.value());
  }
  return partial;
}

absl::StatusOr<std::string> CheckpointFolder::Publish(const Manifest& manifest) {
  const std::string partial = Partial(manifest.step);
  const std::string whole = Whole(manifest.step);
  for (const Manifest::File& file : manifest.files) {
    const std::string path = absl::StrCat(partial, "/", file.name);
    std::error_code error;
    const auto size = static_cast<int64_t>(fs::file_size(path, error));
    if (!error && size == file.bytes) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": a rank has written ", file.bytes,
                     " bytes that the first one does not see; name a folder that is the same on "
                     "all machines (checkpoint.folder)"));
  }
  TESSERA_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(partial, "/", kManifestName), ToText(manifest)));
  TESSERA_RETURN_IF_ERROR(SyncFolder(partial));
  constexpr char kDoing[] = "cannot give a checkpoint its name";
  if (std::rename(partial.c_str(), whole.c_str()) == 0) {
    TESSERA_RETURN_IF_ERROR(SyncFolder(path_));
    return whole;
  }
  if (errno != EEXIST && errno != ENOTEMPTY) return FileError(whole, kDoing, errno);
  // At no moment is there neither of them.
  if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, whole.c_str(), RENAME_EXCHANGE) != 0) {
    return FileError(whole, kDoing, errno);
  }
  TESSERA_RETURN_IF_ERROR(SyncFolder(path_));
  Discard(manifest.step);
  return whole;
}

void CheckpointFolder::Discard(int64_t step) {
  std::error_code ignored;
  fs::remove_all(Partial(step), ignored);
}

absl::Status CheckpointFolder::Prune(int64_t last, int64_t every) const {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<Entry> entries, List());
  for (size_t e = static_cast<size_t>(last); e < entries.size(); ++e) {
    const auto& [step, path] = entries[e];
    if (every > 0 && step % every == 0) continue;
    // What is half removed has no name of a checkpoint any more.
    const std::string partial = Partial(step);
    std::error_code error;
    fs::remove_all(partial, error);
    if (std::rename(path.c_str(), partial.c_str()) != 0) {
      return FileError(path, "cannot remove an old checkpoint", errno);
    }
    fs::remove_all(partial, error);
    if (error) return FileError(partial, "cannot remove an old checkpoint", error.value());
  }
  return absl::OkStatus();
}

}  // namespace tessera
