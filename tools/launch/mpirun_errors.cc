#include "tools/launch/mpirun_errors.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

bool IsFrame(absl::string_view line) {
  return line.size() >= 20 && line.find_first_not_of('-') == absl::string_view::npos;
}

// "[host:123] ", as Open MPI and PMIx start a line in any process of theirs.
bool HasProcessTag(absl::string_view line) {
  const size_t end = line.find("] ");
  if (line.empty() || line[0] != '[' || end == absl::string_view::npos) return false;
  const size_t colon = line.rfind(':', end);
  if (colon == absl::string_view::npos || colon + 1 == end) return false;
  return line.substr(colon + 1, end - colon - 1).find_first_not_of("0123456789") ==
         absl::string_view::npos;
}

// mpirun's lines outside frames; "[warn]" and "[err]" come from its libevent, which
// now and then meets a pipe of a rank that is gone.
bool IsComment(absl::string_view line) {
  return absl::StartsWith(line, "mpirun:") || absl::StartsWith(line, "prterun:") ||
         absl::StartsWith(line, "[warn] ") || absl::StartsWith(line, "[err] ") ||
         HasProcessTag(line);
}

}  // namespace

bool MpirunErrors::TakeComment(absl::string_view line) {
  if (IsFrame(line)) {
    in_frame_ = !in_frame_;
    return true;
  }
  const bool is_comment = in_frame_ || IsComment(line);
  if (is_comment) AddComment(line);
  return is_comment;
}

void MpirunErrors::AddComment(absl::string_view line) {
  absl::StrAppend(&comments_, line, "\n");
  if (killed_rank_) return;
  // The sentence may be broken between lines.
  const size_t who = comments_.find("process rank ");
  const size_t how = comments_.find("signal ", who);
  KilledRank killed{};
  if (who != std::string::npos && how != std::string::npos &&
      std::sscanf(comments_.c_str() + who, "process rank %d", &killed.rank) == 1 &&
      std::sscanf(comments_.c_str() + how, "signal %d", &killed.signal) == 1) {
    killed_rank_ = killed;
  }
}

}  // namespace tessera
