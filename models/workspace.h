#ifndef TESSERA_MODELS_WORKSPACE_H_
#define TESSERA_MODELS_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/tensor.h"

namespace tessera {

// Cuts a module's workspace into tensors. The same code that cuts also measures,
// from a null base, so a Footprint cannot disagree with what a module uses.
class Workspace {
 public:
  explicit Workspace(std::byte* base) : base_(base) {}

  Tensor Take(DType dtype, Shape shape) {
    Tensor tensor{nullptr, dtype, std::move(shape)};
    tensor.data = TakeBytes(tensor.bytes());
    return tensor;
  }

  // 64-aligned; null when measuring.
  std::byte* TakeBytes(int64_t bytes) {
    std::byte* start = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return start;
  }

  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

}  // namespace tessera

#endif  // TESSERA_MODELS_WORKSPACE_H_
