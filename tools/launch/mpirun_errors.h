#ifndef TESSERA_TOOLS_LAUNCH_MPIRUN_ERRORS_H_
#define TESSERA_TOOLS_LAUNCH_MPIRUN_ERRORS_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "tools/launch/rank_errors.h"

namespace tessera {

// Reads what mpirun writes to standard error: the ranks' lines, which pass as
// RankErrors has it, and mpirun's own comments.
class MpirunErrors {
 public:
  struct KilledRank {
    int rank;
    int signal;
  };

  explicit MpirunErrors(std::function<void(absl::string_view)> emit)
      : lines_(std::move(emit), [this](absl::string_view line) { return TakeComment(line); }) {}
  MpirunErrors(const MpirunErrors&) = delete;
  MpirunErrors& operator=(const MpirunErrors&) = delete;

  RankErrors& lines() { return lines_; }
  // The rank that mpirun says was killed by a signal.
  std::optional<KilledRank> killed_rank() const { return killed_rank_; }
  // What mpirun itself had to say, without its frames.
  const std::string& comments() const { return comments_; }

 private:
  bool TakeComment(absl::string_view line);
  void AddComment(absl::string_view line);

  RankErrors lines_;
  bool in_frame_ = false;  // between two lines of dashes, where mpirun speaks
  std::string comments_;
  std::optional<KilledRank> killed_rank_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_LAUNCH_MPIRUN_ERRORS_H_
