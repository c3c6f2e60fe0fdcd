#ifndef TESSERA_CORE_DATA_BYTE_TOKENIZER_H_
#define TESSERA_CORE_DATA_BYTE_TOKENIZER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// Every byte is a token: no vocabulary file, and any text can be encoded.
inline constexpr int64_t kByteVocabulary = 256;

inline std::vector<int32_t> EncodeBytes(absl::string_view text) {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

// Tokens must be below kByteVocabulary.
inline std::string DecodeBytes(absl::Span<const int32_t> tokens) {
  std::string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) text.push_back(static_cast<char>(token));
  return text;
}

}  // namespace tessera

#endif  // TESSERA_CORE_DATA_BYTE_TOKENIZER_H_
