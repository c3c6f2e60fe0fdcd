#include "tools/data_command.h"

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "core/data/byte_tokenizer.h"
#include "core/data/token_writer.h"
#include "core/status.h"
#include "tools/command_line.h"
#include "tools/exit_status.h"

namespace tessera {
namespace {

constexpr int kParts = 100;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", path, "; give the path of a file of text"));
  }
  return text.str();
}

absl::Status MakeTokens(const std::vector<std::string>& paths, const std::string& train_path,
                        const std::string& validation_path, int held_out) {
  TESSERA_ASSIGN_OR_RETURN(TokenWriter train, TokenWriter::Create(train_path));
  TESSERA_ASSIGN_OR_RETURN(TokenWriter validation, TokenWriter::Create(validation_path));
  for (const std::string& path : paths) {
    TESSERA_ASSIGN_OR_RETURN(const std::string text, ReadText(path));
    const auto cut = [&](int part) { return text.size() * part / kParts; };
    int taken = 0;
    for (int part = 0; part < kParts; ++part) {
      // Spreads the held-out parts evenly over the text.
      const bool hold = (part + 1) * held_out / kParts > taken;
      if (hold) ++taken;
      const std::string piece = text.substr(cut(part), cut(part + 1) - cut(part));
      TESSERA_RETURN_IF_ERROR((hold ? validation : train).Append(EncodeBytes(piece)));
    }
  }
  TESSERA_RETURN_IF_ERROR(train.Close());
  return validation.Close();
}

}  // namespace

int DataCommand(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> line =
      ParseCommandLine(arguments, {{"train", "validation", "held-out"}, {}, 1, 100000, "a text"});
  if (!line.ok()) return ReportMisuse(line.status());
  const absl::StatusOr<int> held_out = line->Integer("held-out", 5, 1, kParts - 1);
  if (!held_out.ok()) return ReportMisuse(held_out.status());
  if (!line->Has("train") || !line->Has("validation")) {
    return ReportMisuse(
        absl::InvalidArgumentError("data needs --train FILE and --validation FILE"));
  }
  const absl::Status status =
      MakeTokens(line->positional, line->Get("train", ""), line->Get("validation", ""), *held_out);
  return status.ok() ? kDone : ReportFailure(status, /*rank=*/-1);
}

}  // namespace tessera
