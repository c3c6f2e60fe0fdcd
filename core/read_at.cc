#include "core/read_at.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/atomic_file.h"

namespace tessera {

absl::StatusOr<int64_t> ReadAt(const std::string& path, int descriptor, int64_t offset,
                               int64_t bytes, void* to) {
  int64_t done = 0;
  while (done < bytes) {
    const int64_t at = offset + done;
    const ssize_t got =
        pread(descriptor, static_cast<char*>(to) + done, static_cast<size_t>(bytes - done), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError(path, absl::StrCat("cannot read at offset ", at), errno);
    if (got == 0) break;
    done += got;
  }
  return done;
}

}  // namespace tessera
