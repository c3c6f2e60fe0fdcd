#include "tools/launch/rank_errors.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tessera {

void RankErrors::Add(absl::string_view bytes) {
  for (const char byte : bytes) {
    if (byte != '\n') {
      line_.push_back(byte);
      continue;
    }
    AddLine(absl::StripSuffix(line_, "\r"));
    line_.clear();
  }
}

void RankErrors::Finish() {
  if (!line_.empty()) AddLine(line_);
  line_.clear();
}

void RankErrors::AddLine(absl::string_view line) {
  if (absl::StartsWith(line, "tessera: error")) return Report(line);
  if (!absl::StartsWith(line, "tessera:") && take_(line)) return;
  emit_(absl::StrCat(line, "\n"));
}

void RankErrors::Report(absl::string_view error) {
  if (error_emitted_) return;
  error_emitted_ = true;
  emit_(absl::StrCat(error, "\n"));
}

}  // namespace tessera
