#include "kernels/ordered_sum.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/cpu/convert.h"

namespace tessera::kernels::cpu {
namespace {

constexpr int64_t kTile = 16384;
constexpr int64_t kBlock = 512;  // what is summed at once: all its sums stay in cache
constexpr int kMaximumDepth = 48;

template <typename T>
void Add(const float* a, const T* b, int64_t count, float* sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + static_cast<float>(b[i]);
}

// The counter of one block. What is pending stays where it was (a slot or a
// piece) until something is added to it; new sums go to `scratch`, the one at
// depth d of the stack to scratch[d].
class BlockCounter {
 public:
  BlockCounter(const AccumulateArguments& arguments, int64_t first, int64_t count)
      : arguments_(arguments), first_(first), count_(count) {
    for (const Slot& slot : arguments.slots_before) {
      const float* values = slot.sum.as<float>() + first;
      if (slot.level == kOpenGroup) {
        open_ = values;
      } else {
        stack_[depth_++] = {slot.level, values};
      }
    }
  }

  void Run() {
    int64_t leaves = arguments_.leaves_before;
    for (const Tensor& piece : arguments_.pieces) {
      AddToGroup(piece);
      if (++leaves % arguments_.group == 0) CloseGroup();
    }
    if (arguments_.total != nullptr) {
      Finish();
    } else {
      StoreSlots();
    }
  }

 private:
  struct Pending {
    int level;
    const float* values;
  };

  void AddToGroup(const Tensor& piece) {
    float* sum = scratch_[depth_];
    if (open_ == nullptr && piece.dtype == DType::kFloat32) {
      open_ = piece.as<float>() + first_;
      return;
    }
    if (open_ == nullptr) {
      LoadFloats(piece, first_, count_, sum);
    } else if (piece.dtype == DType::kFloat32) {
      Add(open_, piece.as<float>() + first_, count_, sum);
    } else {
      Add(open_, piece.as<BFloat16>() + first_, count_, sum);
    }
    open_ = sum;
  }

  void CloseGroup() {
    Pending value = {0, open_};
    while (depth_ > 0 && stack_[depth_ - 1].level == value.level) value = MergeInto(value);
    stack_[depth_++] = value;
    open_ = nullptr;
  }

  void Finish() {
    if (open_ != nullptr) CloseGroup();
    Pending value = stack_[--depth_];
    while (depth_ > 0) value = MergeInto(value);
    StoreFloats(value.values, first_, count_, *arguments_.total);
  }

  // Takes the last pending sum off the stack, and adds `value` to it.
  Pending MergeInto(const Pending& value) {
    const Pending& last = stack_[--depth_];
    Add(last.values, value.values, count_, scratch_[depth_]);
    return {last.level + 1, scratch_[depth_]};
  }

  void StoreSlots() {
    int depth = 0;
    for (const Slot& slot : arguments_.slots_after) {
      const float* values = slot.level == kOpenGroup ? open_ : stack_[depth++].values;
      float* target = slot.sum.as<float>() + first_;
      if (values != target) std::copy_n(values, count_, target);
    }
  }

  const AccumulateArguments& arguments_;
  const int64_t first_;
  const int64_t count_;
  const float* open_ = nullptr;
  int depth_ = 0;
  std::array<Pending, kMaximumDepth> stack_;
  alignas(64) float scratch_[kMaximumDepth][kBlock];
};

}  // namespace

absl::Status AccumulateOrdered(Lane& lane, const AccumulateArguments& arguments) {
  const int64_t elements = CheckedElements(arguments);
  lane.pool().For((elements + kTile - 1) / kTile, [&](int64_t tile) {
    const int64_t end = std::min(elements, (tile + 1) * kTile);
    for (int64_t first = tile * kTile; first < end; first += kBlock) {
      BlockCounter(arguments, first, std::min(kBlock, end - first)).Run();
    }
  });
  return absl::OkStatus();
}

}  // namespace tessera::kernels::cpu
