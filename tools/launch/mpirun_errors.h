#ifndef TESSERA_TOOLS_LAUNCH_MPIRUN_ERRORS_H_
#define TESSERA_TOOLS_LAUNCH_MPIRUN_ERRORS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Reads what mpirun writes to standard error: the ranks' lines, among them the
// same error from every rank, and mpirun's own comments. Lets through the ranks'
// lines, but one "tessera: error" line in all: the first.
class MpirunErrors {
 public:
  struct KilledRank {
    int rank;
    int signal;
  };

  // `emit` gets each line that passes, with its line feed.
  explicit MpirunErrors(std::function<void(absl::string_view)> emit) : emit_(std::move(emit)) {}

  // The next bytes of the stream, cut anywhere.
  void Add(absl::string_view bytes);
  // The stream has ended.
  void Finish();

  bool error_emitted() const { return error_emitted_; }
  // The rank that mpirun says was killed by a signal.
  std::optional<KilledRank> killed_rank() const { return killed_rank_; }
  // What mpirun itself had to say, without its frames.
  const std::string& comments() const { return comments_; }

 private:
  void AddLine(absl::string_view line);
  void AddComment(absl::string_view line);

  const std::function<void(absl::string_view)> emit_;
  std::string line_;       // the unfinished one
  bool in_frame_ = false;  // between two lines of dashes, where mpirun speaks
  bool error_emitted_ = false;
  std::string comments_;
  std::optional<KilledRank> killed_rank_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_MPIRUN_ERRORS_H_
