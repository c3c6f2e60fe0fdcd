#include "tools/train/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/data/byte_tokenizer.h"
#include "core/philox.h"

namespace tessera {
namespace {

// The latest tokens of the text, as a batch of one sequence.
class Window : public BatchSource {
 public:
  explicit Window(const std::vector<int32_t>& text) : text_(text) {}

  absl::Status Read(int64_t /*first_sequence*/, int64_t /*sequences*/,
                    absl::Span<const Tensor> fields) override {
    for (const Tensor& field : fields) {
      std::fill_n(field.as<int32_t>(), field.elements(), 0);
    }
    const int64_t context = fields[0].shape.back();
    used_ = std::min<int64_t>(static_cast<int64_t>(text_.size()), context);
    std::copy(text_.end() - used_, text_.end(), fields[0].as<int32_t>());
    return absl::OkStatus();
  }
  int64_t used() const { return used_; }

 private:
  const std::vector<int32_t>& text_;
  int64_t used_ = 0;
};

int32_t Draw(const float* logits, double temperature, double uniform) {
  const float* const most = std::max_element(logits, logits + kByteVocabulary);
  if (temperature == 0) return static_cast<int32_t>(most - logits);
  std::vector<double> weights(kByteVocabulary);
  double sum = 0;
  for (int64_t v = 0; v < kByteVocabulary; ++v) {
    sum += weights[v] = std::exp((logits[v] - *most) / temperature);
  }
  double left = uniform * sum;
  int32_t drawn = 0;
  while (drawn + 1 < kByteVocabulary && (left -= weights[drawn]) >= 0) ++drawn;
  return drawn;
}

}  // namespace

absl::StatusOr<std::string> SampleText(Trainer& trainer, const std::string& prompt, int64_t length,
                                       double temperature, uint64_t seed) {
  std::vector<int32_t> text = EncodeBytes(prompt);
  const RandomKey key = {seed, RandomPurpose::kSample, 0, 0, 0};
  Window window(text);
  for (int64_t i = 0; i < length; ++i) {
    TESSERA_ASSIGN_OR_RETURN(const Tensor logits, trainer.Predict(window));
    const float* const last = logits.as<float>() + (window.used() - 1) * kByteVocabulary;
    text.push_back(Draw(last, temperature, UnitFloat(key.Word(static_cast<uint64_t>(i)))));
  }
  return DecodeBytes(text);
}

std::string Printable(const std::string& text) {
  std::string shown;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    const bool control = (code < 0x20 && byte != '\n' && byte != '\t') || code == 0x7f;
    if (control) {
      absl::StrAppendFormat(&shown, "\\x%02x", code);
    } else {
      shown.push_back(byte);
    }
  }
  return shown;
}

}  // namespace tessera
