#ifndef TESSERA_TOOLS_LAUNCH_RANK_ERRORS_H_
#define TESSERA_TOOLS_LAUNCH_RANK_ERRORS_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace tessera {

// Reads what ranks write to standard error, the same error from each of them, and
// lets through all lines, but one "tessera: error" line in all: the first.
class RankErrors {
 public:
  // `emit` gets each line that passes, with its line feed. Lines that do not start
  // with "tessera:" are first shown to `take`, and do not pass when it says true.
  explicit RankErrors(
      std::function<void(absl::string_view)> emit,
      std::function<bool(absl::string_view)> take = [](absl::string_view) { return false; })
      : emit_(std::move(emit)), take_(std::move(take)) {}

  // The next bytes of the stream, cut anywhere.
  void Add(absl::string_view bytes);
  // The stream has ended.
  void Finish();
  // The launcher's own "tessera: error" line, without a line feed; like a rank's.
  void Report(absl::string_view error);

  bool error_emitted() const { return error_emitted_; }

 private:
  void AddLine(absl::string_view line);

  const std::function<void(absl::string_view)> emit_;
  const std::function<bool(absl::string_view)> take_;
  std::string line_;  // the unfinished one
  bool error_emitted_ = false;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_RANK_ERRORS_H_
