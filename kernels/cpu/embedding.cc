#include "kernels/embedding.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/convert.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kRows = 8;  // of a tile

absl::Status CheckTokens(const Tensor& tokens, int64_t vocabulary) {
  const int32_t* values = tokens.as<int32_t>();
  for (int64_t i = 0; i < tokens.elements(); ++i) {
    if (values[i] < 0 || values[i] >= vocabulary) {
      return absl::OutOfRangeError(
          absl::StrCat("token ", values[i], " at position ", i % tokens.shape.back(),
                       " of sequence ", i / tokens.shape.back(), " is not in the vocabulary of ",
                       vocabulary, ": check that the data was made with this model's tokenizer"));
    }
  }
  return absl::OkStatus();
}

// table[row] = the sum of d_out's rows `positions`, in order.
template <typename Positions>
void SumRows(const Tensor& d_out, const Positions& positions, int64_t row, const Tensor& table,
             std::vector<float>& buffer) {
  const int64_t width = table.shape[1];
  float* sum = buffer.data();
  float* values = sum + width;
  std::fill_n(sum, width, 0.0f);
  positions([&](int64_t position) {
    LoadFloats(d_out, position * width, width, values);
    for (int64_t i = 0; i < width; ++i) sum[i] += values[i];
  });
  StoreFloats(sum, row * width, width, table);
}

}  // namespace

absl::Status EmbeddingForward(Lane& lane, const Tensor& tokens, const Tensor& token_table,
                              const Tensor& position_table, const Tensor& out) {
  const int64_t length = tokens.shape[1];
  const int64_t width = token_table.shape[1];
  TESSERA_RETURN_IF_ERROR(CheckTokens(tokens, token_table.shape[0]));
  const int32_t* values = tokens.as<int32_t>();
  const int64_t rows = tokens.elements();
  lane.pool().For((rows + kRows - 1) / kRows, [&](int64_t tile) {
    std::vector<float> buffer(2 * width);
    float* token = buffer.data();
    float* position = token + width;
    for (int64_t row = tile * kRows; row < std::min(rows, (tile + 1) * kRows); ++row) {
      LoadFloats(token_table, values[row] * width, width, token);
      LoadFloats(position_table, row % length * width, width, position);
      for (int64_t i = 0; i < width; ++i) token[i] += position[i];
      StoreFloats(token, row * width, width, out);
    }
  });
  return absl::OkStatus();
}

int64_t EmbeddingBackwardWorkspace(int64_t vocabulary, int64_t tokens) {
  return (vocabulary + 1 + tokens) * SizeOf(DType::kInt32);
}

absl::Status EmbeddingBackward(Lane& lane, const Tensor& tokens, const Tensor& d_out,
                               const Tensor& d_token_table, const Tensor& d_position_table,
                               std::byte* workspace) {
  const int64_t vocabulary = d_token_table.shape[0];
  const int64_t width = d_token_table.shape[1];
  const int64_t sequences = tokens.shape[0];
  const int64_t length = tokens.shape[1];
  const int64_t context = d_position_table.shape[0];
  TESSERA_RETURN_IF_ERROR(CheckTokens(tokens, vocabulary));

  // A counting sort: the positions of token v, in order, end up at
  // [starts[v], starts[v + 1]) of `order`.
  const int32_t* values = tokens.as<int32_t>();
  auto* starts = reinterpret_cast<int32_t*>(workspace);
  int32_t* order = starts + vocabulary + 1;
  std::fill_n(starts, vocabulary + 1, 0);
  for (int64_t i = 0; i < tokens.elements(); ++i) ++starts[values[i]];
  for (int64_t v = 1; v <= vocabulary; ++v) starts[v] += starts[v - 1];
  for (int64_t i = tokens.elements() - 1; i >= 0; --i) {
    order[--starts[values[i]]] = static_cast<int32_t>(i);
  }

  const int64_t token_tiles = (vocabulary + kRows - 1) / kRows;
  const int64_t position_tiles = (context + kRows - 1) / kRows;
  lane.pool().For(token_tiles + position_tiles, [&](int64_t tile) {
    std::vector<float> buffer(2 * width);
    if (tile < token_tiles) {
      for (int64_t v = tile * kRows; v < std::min(vocabulary, (tile + 1) * kRows); ++v) {
        const auto positions = [&](const auto& add) {
          for (int32_t i = starts[v]; i < starts[v + 1]; ++i) add(order[i]);
        };
        SumRows(d_out, positions, v, d_token_table, buffer);
      }
      return;
    }
    const int64_t first = (tile - token_tiles) * kRows;
    for (int64_t t = first; t < std::min(context, first + kRows); ++t) {
      const auto positions = [&](const auto& add) {
        for (int64_t b = 0; b < sequences && t < length; ++b) add(b * length + t);
      };
      SumRows(d_out, positions, t, d_position_table, buffer);
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
