#include "core/metrics/json_lines.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/atomic_file.h"
#include "nlohmann/json.hpp"

namespace tessera {

absl::StatusOr<JsonLines> JsonLines::Create(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError(path, "cannot create", errno);
  JsonLines lines(path, descriptor);
  // A file system without locks cannot tell.
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": another run is writing it; give this one a file of its own"));
  }
  // What is not a regular file has no length to cut.
  if (ftruncate(descriptor, 0) != 0 && errno != EINVAL) {
    return FileError(path, "cannot empty", errno);
  }
  return lines;
}

JsonLines::JsonLines(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

JsonLines::JsonLines(JsonLines&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

JsonLines::~JsonLines() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status JsonLines::Write(const nlohmann::ordered_json& line) {
  constexpr int kNoIndent = -1;
  const std::string text = line.dump(kNoIndent, ' ', /*ensure_ascii=*/false,
                                     nlohmann::ordered_json::error_handler_t::replace) +
                           "\n";
  for (absl::string_view rest = text; !rest.empty();) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError(path_, "cannot write", errno);
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace tessera
