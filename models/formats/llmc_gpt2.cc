#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/dtype.h"
#include "core/status.h"
#include "models/formats/gpt2_weights.h"

namespace tessera {
namespace {

constexpr int32_t kMagic = 20240326;
constexpr int32_t kFloat32Version = 3;
constexpr int32_t kBFloat16Version = 5;
constexpr int64_t kHeaderWords = 256;
constexpr int64_t kMostLayers = 10'000;

// A tensor of the file: of all layers together, matrices as [out, in].
struct Part {
  std::string name;  // without "h.<layer>."
  bool of_layers = false;
  int64_t rows = 1;
  int64_t columns = 0;
  bool transposed = false;
};

std::vector<Part> PartsOf(const Gpt2Config& config, int64_t padded_vocabulary) {
  const int64_t c = config.width;
  return {{"wte.weight", false, padded_vocabulary, c, false},
          {"wpe.weight", false, config.context, c, false},
          {"ln_1.weight", true, 1, c, false},
          {"ln_1.bias", true, 1, c, false},
          {"attn.c_attn.weight", true, 3 * c, c, true},
          {"attn.c_attn.bias", true, 1, 3 * c, false},
          {"attn.c_proj.weight", true, c, c, true},
          {"attn.c_proj.bias", true, 1, c, false},
          {"ln_2.weight", true, 1, c, false},
          {"ln_2.bias", true, 1, c, false},
          {"mlp.c_fc.weight", true, 4 * c, c, true},
          {"mlp.c_fc.bias", true, 1, 4 * c, false},
          {"mlp.c_proj.weight", true, c, 4 * c, true},
          {"mlp.c_proj.bias", true, 1, c, false},
          {"ln_f.weight", false, 1, c, false},
          {"ln_f.bias", false, 1, c, false}};
}

class LlmcGpt2 final : public Gpt2Weights {
 public:
  explicit LlmcGpt2(std::string path) : path_(std::move(path)) {}

  const Gpt2Config& config() const override { return config_; }
  std::string path() const override { return path_; }

  absl::Status ReadHeader() {
    std::ifstream file(path_, std::ios::binary);
    if (!file) return absl::NotFoundError(absl::StrCat(path_, ": cannot open"));
    std::array<int32_t, kHeaderWords> header = {};
    file.read(reinterpret_cast<char*>(header.data()), sizeof(header));
    if (!file || header[0] != kMagic) {
      return Wrong(
          0, absl::StrCat("magic number ", header[0], "; expected ", kMagic, ", a model of llm.c"));
    }
    if (header[1] != kFloat32Version && header[1] != kBFloat16Version) {
      return Wrong(4, absl::StrCat("version ", header[1], "; expected ", kFloat32Version,
                                   " (fp32) or ", kBFloat16Version, " (bf16)"));
    }
    element_ = header[1] == kFloat32Version ? 4 : 2;
    config_.context = header[2];
    config_.vocabulary = header[3];
    config_.layers = header[4];
    config_.heads = header[5];
    config_.width = header[6];
    const int64_t padded = header[7];
    // Before anything is made of them, or multiplied.
    constexpr int64_t kMost = 1 << 20;
    for (int word = 2; word < 8; ++word) {
      if (header[word] >= 1 && header[word] <= (word == 4 ? kMostLayers : kMost)) continue;
      return Wrong(4 * word, absl::StrCat("the size ", header[word], " makes no model"));
    }
    if (padded < config_.vocabulary) {
      return Wrong(28, absl::StrCat("padded vocabulary ", padded, "; expected at least ",
                                    config_.vocabulary));
    }
    int64_t offset = sizeof(header);
    for (const Part& part : PartsOf(config_, padded)) {
      parts_[part.name] = {part, offset};
      offset += (part.of_layers ? config_.layers : 1) * part.rows * part.columns * element_;
    }
    struct stat status = {};
    if (stat(path_.c_str(), &status) != 0 || status.st_size != offset) {
      return Wrong(status.st_size,
                   absl::StrCat("the file ends; expected ", offset, " bytes by its header"));
    }
    const absl::Status sizes = MakeGpt2(config_, DType::kFloat32).status();
    return sizes.ok() ? sizes : Wrong(8, sizes.message());
  }

  absl::StatusOr<std::vector<float>> Read(const std::string& name) const override {
    absl::string_view rest = name;
    int64_t layer = 0;
    if (absl::ConsumePrefix(&rest, "h.")) {
      while (!rest.empty() && rest[0] != '.') {
        layer = 10 * layer + (rest[0] - '0');
        rest.remove_prefix(1);
      }
      rest.remove_prefix(1);
    }
    const auto& [part, begin] = parts_.at(std::string(rest));
    // The rows that pad the vocabulary are left out.
    const int64_t rows = part.name == "wte.weight" ? config_.vocabulary : part.rows;
    TESSERA_ASSIGN_OR_RETURN(
        std::vector<float> values,
        ReadValues(begin + layer * part.rows * part.columns * element_, rows * part.columns));
    if (!part.transposed) return values;
    std::vector<float> turned(values.size());
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < part.columns; ++column) {
        turned[column * rows + row] = values[row * part.columns + column];
      }
    }
    return turned;
  }

 private:
  absl::Status Wrong(int64_t offset, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": offset ", offset, ": ", what));
  }

  absl::StatusOr<std::vector<float>> ReadValues(int64_t offset, int64_t count) const {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(offset);
    std::vector<float> values(count);
    if (element_ == SizeOf(DType::kFloat32)) {
      file.read(reinterpret_cast<char*>(values.data()), count * element_);
    } else {
      std::vector<BFloat16> narrow(count);
      file.read(reinterpret_cast<char*>(narrow.data()), count * element_);
      std::transform(narrow.begin(), narrow.end(), values.begin(),
                     [](BFloat16 value) { return static_cast<float>(value); });
    }
    if (!file) return Wrong(offset, "cannot read");
    return values;
  }

  const std::string path_;
  Gpt2Config config_;
  int64_t element_ = 4;
  std::map<std::string, std::pair<Part, int64_t>> parts_;  // and where each begins
};

}  // namespace

absl::StatusOr<std::unique_ptr<Gpt2Weights>> OpenLlmcGpt2(const std::string& path) {
  auto weights = std::make_unique<LlmcGpt2>(path);
  TESSERA_RETURN_IF_ERROR(weights->ReadHeader());
  return weights;
}

}  // namespace tessera
