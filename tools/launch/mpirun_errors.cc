#include "tools/launch/mpirun_errors.h"

#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

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

void MpirunErrors::Add(absl::string_view bytes) {
  for (const char byte : bytes) {
    if (byte != '\n') {
      line_.push_back(byte);
      continue;
    }
    AddLine(absl::StripSuffix(line_, "\r"));
    line_.clear();
  }
}

void MpirunErrors::Finish() {
  if (!line_.empty()) AddLine(line_);
  line_.clear();
}

void MpirunErrors::AddLine(absl::string_view line) {
  if (absl::StartsWith(line, "tessera: error")) {
    if (error_emitted_) return;
    error_emitted_ = true;
  } else if (!absl::StartsWith(line, "tessera:")) {
    if (IsFrame(line)) {
      in_frame_ = !in_frame_;
      return;
    }
    if (in_frame_ || IsComment(line)) return AddComment(line);
  }
  emit_(absl::StrCat(line, "\n"));
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
