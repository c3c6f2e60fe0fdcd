#ifndef TESSERA_CORE_METRICS_JSON_LINES_H_
#define TESSERA_CORE_METRICS_JSON_LINES_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace tessera {

// A file of one JSON object per line. A line is handed to the system as soon as it
// is written, so what was reported survives the process. Not thread-safe.
class JsonLines {
 public:
  // Starts the file anew.
  static absl::StatusOr<JsonLines> Create(const std::string& path);
  // Goes on with a file: it is cut before the first line that is not to be kept, or is
  // none.
  static absl::StatusOr<JsonLines> Continue(const std::string& path,
                                            const std::function<bool(const nlohmann::json&)>& keep);
  JsonLines(JsonLines&& other) noexcept;
  JsonLines& operator=(JsonLines&&) = delete;
  ~JsonLines();

  // Floats are printed so that they read back to the same bits; NaN and infinity,
  // which JSON lacks, become null.
  absl::Status Write(const nlohmann::ordered_json& line);

 private:
  JsonLines(std::string path, int descriptor);
  static absl::StatusOr<JsonLines> Open(const std::string& path);
  absl::Status Cut(int64_t bytes);

  std::string path_;
  int descriptor_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_METRICS_JSON_LINES_H_
