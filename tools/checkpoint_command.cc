#include "tools/checkpoint_command.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/metrics/progress_line.h"
#include "core/status.h"
#include "sharding/checkpoint/checkpoint_folder.h"
#include "sharding/checkpoint/checkpoint_reader.h"
#include "tools/command_line.h"
#include "tools/convert_checkpoint.h"
#include "tools/exit_status.h"

namespace tessera {
namespace {

int64_t BytesOf(const Manifest& manifest) {
  int64_t bytes = 0;
  for (const Manifest::File& file : manifest.files) bytes += file.bytes;
  return bytes;
}

void Describe(const CheckpointReader& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  absl::PrintF("%s  step %d, %d sequences, %s in %d file%s\n", checkpoint.folder(), manifest.step,
               manifest.sequences, HumanBytes(static_cast<double>(BytesOf(manifest))),
               manifest.files.size(), manifest.files.size() == 1 ? "" : "s");
}

int List(const std::string& folder) {
  const absl::StatusOr<std::vector<CheckpointFolder::Entry>> entries =
      CheckpointFolder(folder).List();
  if (!entries.ok()) return ReportFailure(entries.status(), /*rank=*/-1);
  if (entries->empty()) {
    return ReportFailure(absl::NotFoundError(absl::StrCat(folder, ": holds no checkpoints")), -1);
  }
  for (const CheckpointFolder::Entry& entry : *entries) {
    const absl::StatusOr<CheckpointReader> checkpoint = CheckpointReader::Open(entry.path);
    if (checkpoint.ok()) {
      Describe(*checkpoint);
    } else {
      absl::PrintF("%s  damaged: %s\n", entry.path, std::string(checkpoint.status().message()));
    }
  }
  return FinishOutput();
}

int VerifyAll(const std::string& path) {
  const absl::StatusOr<CheckpointReader> checkpoint = CheckpointReader::Open(path);
  if (!checkpoint.ok()) return ReportFailure(checkpoint.status(), /*rank=*/-1);
  const absl::Status intact = checkpoint->Verify();
  if (!intact.ok()) return ReportFailure(intact, /*rank=*/-1);
  Describe(*checkpoint);
  absl::PrintF("intact\n");
  return FinishOutput();
}

// Prints how the tensor differs, if it does; whether it does.
absl::StatusOr<bool> DiffTensor(const CheckpointReader& a, const CheckpointReader& b,
                                const Manifest::Tensor& tensor) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<float> x, a.ReadTensor(tensor));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<float> y, b.ReadTensor(tensor));
  int64_t different = 0;
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::bit_cast<uint32_t>(x[i]) == std::bit_cast<uint32_t>(y[i])) continue;
    ++different;
    most = std::max(most, std::fabs(static_cast<double>(x[i]) - y[i]));
  }
  if (different > 0) {
    absl::PrintF("%s: %d of %d elements, by up to %g\n", tensor.name, different, x.size(), most);
  }
  return different > 0;
}

// Prints the lines of which only one has each.
bool DiffLines(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  bool differ = false;
  for (size_t line = 0; line < std::max(a.size(), b.size()); ++line) {
    const std::string x = line < a.size() ? a[line] : "nothing";
    const std::string y = line < b.size() ? b[line] : "nothing";
    if (x == y) continue;
    differ = true;
    absl::PrintF("%s | %s\n", x, y);
  }
  return differ;
}

std::vector<std::string> FactsOf(const Manifest& manifest) {
  std::vector<std::string> facts = {absl::StrCat("step = ", manifest.step),
                                    absl::StrCat("sequences = ", manifest.sequences),
                                    absl::StrCat("data = ", manifest.data)};
  facts.insert(facts.end(), manifest.settings.begin(), manifest.settings.end());
  return facts;
}

absl::StatusOr<bool> Differ(const std::string& path_a, const std::string& path_b) {
  TESSERA_ASSIGN_OR_RETURN(const CheckpointReader a, CheckpointReader::Open(path_a));
  TESSERA_ASSIGN_OR_RETURN(const CheckpointReader b, CheckpointReader::Open(path_b));
  bool differ = DiffLines(FactsOf(a.manifest()), FactsOf(b.manifest()));
  const auto names = [](const Manifest& manifest) {
    std::vector<std::string> names;
    for (const Manifest::Tensor& tensor : manifest.tensors) {
      names.push_back(tensor.name);
      for (const int64_t extent : tensor.shape) absl::StrAppend(&names.back(), " ", extent);
    }
    return names;
  };
  if (DiffLines(names(a.manifest()), names(b.manifest()))) return true;
  for (const Manifest::Tensor& tensor : a.manifest().tensors) {
    TESSERA_ASSIGN_OR_RETURN(const bool differs, DiffTensor(a, b, tensor));
    differ = differ || differs;
  }
  return differ;
}

int Diff(const std::string& a, const std::string& b) {
  const absl::StatusOr<bool> differ = Differ(a, b);
  if (!differ.ok()) return ReportFailure(differ.status(), /*rank=*/-1);
  if (!*differ) absl::PrintF("no difference\n");
  const int end = FinishOutput();
  return end == kDone && *differ ? kFailed : end;
}

int Convert(const std::string& from, const std::string& to, const std::string& precision) {
  const bool half = precision == NameOf(DType::kBFloat16);
  if (!half && precision != NameOf(DType::kFloat32)) {
    return ReportMisuse(absl::InvalidArgumentError(
        absl::StrCat("--precision is ", precision, "; expected fp32 or bf16")));
  }
  const absl::StatusOr<std::string> made =
      ConvertCheckpoint(from, to, half ? DType::kBFloat16 : DType::kFloat32);
  if (!made.ok()) return ReportFailure(made.status(), /*rank=*/-1);
  absl::PrintF("%s\n", *made);
  return FinishOutput();
}

}  // namespace

int CheckpointCommand(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(
      arguments, {{"precision"}, {}, 2, 3, "list, verify, diff or convert, and its paths"});
  if (!line.ok()) return ReportMisuse(line.status());
  const std::vector<std::string>& words = line->positional;
  if (words[0] == "list" && words.size() == 2) return List(words[1]);
  if (words[0] == "verify" && words.size() == 2) return VerifyAll(words[1]);
  if (words[0] == "diff" && words.size() == 3) return Diff(words[1], words[2]);
  if (words[0] == "convert" && words.size() == 3) {
    return Convert(words[1], words[2], line->Get("precision", NameOf(DType::kFloat32)));
  }
  return ReportMisuse(absl::InvalidArgumentError(absl::StrCat(
      "checkpoint ", words[0], " with ", words.size() - 1,
      " paths; expected list FOLDER, verify CHECKPOINT, diff A B, or convert FROM TO")));
}

}  // namespace tessera
