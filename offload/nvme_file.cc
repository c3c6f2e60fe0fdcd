#include "offload/nvme_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status.h"
#include "offload/io_queue.h"

namespace tessera {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

std::string FreeIn(const std::string& folder) {
  struct statvfs file_system = {};
  if (statvfs(folder.c_str(), &file_system) != 0) return "an unknown number of";
  return absl::StrCat(static_cast<int64_t>(file_system.f_bavail) *
                      static_cast<int64_t>(file_system.f_frsize));
}

// What creating a file of `bytes` in `folder` failed of.
absl::Status CannotMake(const std::string& folder, int64_t bytes, int error) {
  const std::string what =
      absl::StrCat(folder, ": cannot make the file of ", bytes,
                   " bytes of the NVMe tier: ", std::strerror(error), " (errno ", error, ")");
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(
          absl::StrCat(what, "; make the folder, or name another in memory.nvme.path"));
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(what, "; name a folder in memory.nvme.path"));
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(
          absl::StrCat(what, "; name a folder that this user may write to in memory.nvme.path"));
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(
          absl::StrCat(what, "; ", FreeIn(folder),
                       " bytes are free there: make room, name another folder in "
                       "memory.nvme.path, or offload less"));
    case EFBIG:
      return absl::ResourceExhaustedError(absl::StrCat(
          what, "; raise the limit of this user's files (ulimit -f), or offload less"));
    default:
      return absl::UnavailableError(
          absl::StrCat(what, "; name a folder of another file system in memory.nvme.path"));
  }
}

// A file without a name.
absl::StatusOr<Descriptor> OpenNameless(const std::string& folder, int64_t bytes) {
  int number = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (number >= 0) return Descriptor(number);
  if (errno != EOPNOTSUPP && errno != EISDIR) return CannotMake(folder, bytes, errno);
  // The file system knows no such files: one with a name, that loses it at once.
  std::string name = absl::StrCat(folder, "/tessera-XXXXXX");
  number = mkostemp(name.data(), O_CLOEXEC);
  if (number < 0) return CannotMake(folder, bytes, errno);
  Descriptor descriptor(number);
  if (unlink(name.c_str()) != 0) return CannotMake(folder, bytes, errno);
  return descriptor;
}

// Gives the file its size and its place on the disk, so that no later write needs any.
absl::Status Allocate(const std::string& folder, int64_t bytes, int descriptor) {
  if (bytes == 0) return absl::OkStatus();
  rlimit limit = {};
  // Beyond the limit the system would not only refuse but send a signal.
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<uint64_t>(bytes) > limit.rlim_cur) {
    return CannotMake(folder, bytes, EFBIG);
  }
  int error = 0;
  do {
    error = fallocate(descriptor, 0, 0, bytes) == 0 ? 0 : errno;
  } while (error == EINTR);
  if (error == EOPNOTSUPP) error = posix_fallocate(descriptor, 0, bytes);
  return error == 0 ? absl::OkStatus() : CannotMake(folder, bytes, error);
}

class LocalFile final : public NvmeFile {
 public:
  LocalFile(std::string folder, Descriptor descriptor, std::string note)
      : folder_(std::move(folder)),
        descriptor_(std::move(descriptor)),
        note_(std::move(note)),
        reads_(descriptor_.number(), IoQueue::Direction::kRead, kNvmeAlignment),
        writes_(descriptor_.number(), IoQueue::Direction::kWrite, kNvmeAlignment) {
    const std::string& why = reads_.note().empty() ? writes_.note() : reads_.note();
    if (!why.empty()) absl::StrAppend(&note_, note_.empty() ? "" : "; ", why);
  }

  absl::Status Read(absl::Span<const Transfer> transfers) override {
    return Named(reads_.Move(transfers));
  }
  absl::Status Write(absl::Span<const Transfer> transfers) override {
    return Named(writes_.Move(transfers));
  }
  std::string note() const override {
    return note_.empty() ? "" : absl::StrCat(folder_, ": ", note_);
  }

 private:
  absl::Status Named(const absl::Status& status) const {
    if (status.ok()) return status;
    return absl::Status(
        status.code(),
        absl::StrCat("the NVMe tier in ", folder_, ": ", absl::string_view(status.message()),
                     "; look at the system's log and at the disk's health"));
  }

  const std::string folder_;
  const Descriptor descriptor_;
  std::string note_;
  IoQueue reads_, writes_;
};

// Goes over to direct I/O, unless the file system refuses it, which some only say when it
// is tried.
bool UseDirectIo(int descriptor, int64_t bytes) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (fcntl(descriptor, F_SETFL, flags | O_DIRECT) != 0) return false;
  if (bytes == 0) return true;
  const std::unique_ptr<void, decltype(&std::free)> page(
      std::aligned_alloc(kNvmeAlignment, kNvmeAlignment), &std::free);
  if (pread(descriptor, page.get(), kNvmeAlignment, 0) >= 0 || errno != EINVAL) return true;
  fcntl(descriptor, F_SETFL, flags);
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvmeFile>> NvmeFile::Create(const std::string& folder,
                                                           int64_t bytes) {
  TESSERA_CHECK(bytes >= 0, absl::StrCat(bytes, " bytes"));
  struct stat found = {};
  if (stat(folder.c_str(), &found) != 0) return CannotMake(folder, bytes, errno);
  if (!S_ISDIR(found.st_mode)) return CannotMake(folder, bytes, ENOTDIR);
  const int64_t pages = RoundedUp(bytes, kNvmeAlignment);

  TESSERA_ASSIGN_OR_RETURN(Descriptor descriptor, OpenNameless(folder, pages));
  TESSERA_RETURN_IF_ERROR(Allocate(folder, pages, descriptor.number()));
  // Only now: asked for it at once, a file system that refuses may leave a file with a name,
  // and one that reserves no place is then written to in single bytes.
  const std::string note =
      UseDirectIo(descriptor.number(), pages)
          ? ""
          : "its file system refuses direct I/O, so what is offloaded passes through, and "
            "fills, the system's page cache";
  return std::make_unique<LocalFile>(folder, std::move(descriptor), note);
}

}  // namespace tessera
