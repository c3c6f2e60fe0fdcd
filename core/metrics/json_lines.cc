#include "core/metrics/json_lines.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/atomic_file.h"
#include "core/status.h"
#include "nlohmann/json.hpp"

namespace tessera {

absl::StatusOr<JsonLines> JsonLines::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) return FileError(path, "cannot create", errno);
  JsonLines lines(path, descriptor);
  // A file system without locks cannot tell.
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": another run is writing it; give this one a file of its own"));
  }
  return lines;
}

absl::Status JsonLines::Cut(int64_t bytes) {
  // What is not a regular file has no length to cut.
  if (ftruncate(descriptor_, bytes) == 0 || errno == EINVAL) return absl::OkStatus();
  return FileError(path_, "cannot cut", errno);
}

absl::StatusOr<JsonLines> JsonLines::Create(const std::string& path) {
  TESSERA_ASSIGN_OR_RETURN(JsonLines lines, Open(path));
  TESSERA_RETURN_IF_ERROR(lines.Cut(0));
  return lines;
}

absl::StatusOr<JsonLines> JsonLines::Continue(
    const std::string& path, const std::function<bool(const nlohmann::json&)>& keep) {
  TESSERA_ASSIGN_OR_RETURN(JsonLines lines, Open(path));
  // What is sent somewhere cannot be read again.
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return lines;
  int64_t kept = 0;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text) && !file.eof();) {
    const auto line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object() || !keep(line)) break;
    kept += static_cast<int64_t>(text.size()) + 1;
  }
  TESSERA_RETURN_IF_ERROR(lines.Cut(kept));
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
