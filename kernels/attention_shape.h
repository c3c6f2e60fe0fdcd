#ifndef TESSERA_KERNELS_ATTENTION_SHAPE_H_
#define TESSERA_KERNELS_ATTENTION_SHAPE_H_

#include <cstdint>

#include "core/host_device.h"
#include "core/status.h"
#include "core/tensor.h"

namespace tessera::kernels {

// The extents of one attention, and where a head's channels are in a row of qkv
// (q | k | v) and of out.
struct AttentionShape {
  int64_t batch;
  int64_t length;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_size;

  TESSERA_HOST_DEVICE int64_t QkvWidth() const { return (heads + 2 * kv_heads) * head_size; }
  TESSERA_HOST_DEVICE int64_t OutWidth() const { return heads * head_size; }
  // Heads of queries that share a head of keys and values.
  TESSERA_HOST_DEVICE int64_t Group() const { return heads / kv_heads; }

  // Channels before a head of queries (or of out), of keys, of values.
  TESSERA_HOST_DEVICE int64_t QueryChannel(int64_t head) const { return head * head_size; }
  TESSERA_HOST_DEVICE int64_t KeyChannel(int64_t kv_head) const {
    return (heads + kv_head) * head_size;
  }
  TESSERA_HOST_DEVICE int64_t ValueChannel(int64_t kv_head) const {
    return (heads + kv_heads + kv_head) * head_size;
  }
};

// Checks qkv [B, T, (heads + 2 kv_heads) d], and that dropout has numbers enough.
inline AttentionShape AttentionShapeOf(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                                       float dropout_probability) {
  TESSERA_CHECK(qkv.shape.size() == 3, "shape of qkv");
  TESSERA_CHECK(kv_heads > 0 && heads % kv_heads == 0, "heads per head of keys and values");
  const AttentionShape shape{qkv.shape[0], qkv.shape[1], heads, kv_heads,
                             qkv.shape[2] / (heads + 2 * kv_heads)};
  TESSERA_CHECK(qkv.shape[2] == shape.QkvWidth(), "width of qkv");
  TESSERA_CHECK(dropout_probability >= 0 && dropout_probability < 1, "dropout probability");
  // A stream of random numbers has 2^34 elements.
  TESSERA_CHECK(dropout_probability == 0 ||
                    shape.batch * heads * shape.length * shape.length <= int64_t{1} << 34,
                "attention is too large for its dropout");
  return shape;
}

}  // namespace tessera::kernels

#endif  // TESSERA_KERNELS_ATTENTION_SHAPE_H_
