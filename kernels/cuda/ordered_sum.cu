#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/vector_access.h"
#include "kernels/cuda/workspace.h"
#include "kernels/ordered_sum.h"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kElements = 4;  // of a thread
constexpr int kManyLevels = 32;
constexpr int kManyPieces = 2048;  // 16 KiB of a kernel's arguments

// Everything but where the pieces are. Levels index slots; null where there is none.
template <int kLevels>
struct Counter {
  int64_t groups_before = 0;  // whole ones: bit l says that level l is occupied
  int64_t group = 1;
  int64_t in_group_before = 0;  // leaves in the open group
  const float* open_before = nullptr;
  const float* before[kLevels] = {};
  float* open_after = nullptr;
  float* after[kLevels] = {};
  void* total = nullptr;
  bool total_is_bfloat16 = false;
  int pieces = 0;
  int64_t elements = 0;
  bool vector = false;
};

template <int kPieces>
struct Pieces {
  const void* data[kPieces];
};

using Values = float[kElements];

__device__ void AddTo(Values& sum, const Values& value) {
#pragma unroll
  for (int i = 0; i < kElements; ++i) sum[i] += value[i];
}

// A thread carries its elements through the whole counter. Everything is read before
// anything is written, since the total may lie where a piece or a slot does.
//
// `pending` stays in registers: it is only indexed by unrolled loops.
template <int kLevels, int kPieces, typename Piece>
__global__ void __launch_bounds__(kThreads)
    AccumulateKernel(Counter<kLevels> counter, Pieces<kPieces> pieces) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kElements;
  if (first >= counter.elements) return;
  const auto load_piece = [&](int piece, Values& values) {
    LoadFloats(static_cast<const Piece*>(pieces.data[piece]), first, counter.elements,
               counter.vector, values);
  };

  Values pending[kLevels];
#pragma unroll
  for (int level = 0; level < kLevels; ++level) {
    if (counter.before[level] != nullptr) {
      LoadFloats(counter.before[level], first, counter.elements, counter.vector, pending[level]);
    }
  }
  Values open;
  if (counter.open_before != nullptr) {
    LoadFloats(counter.open_before, first, counter.elements, counter.vector, open);
  }
  int64_t groups = counter.groups_before;
  int64_t in_group = counter.in_group_before;

  const auto close_group = [&] {
    bool carries = true;
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if (!carries) continue;
      carries = (groups >> level & 1) != 0;
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        if (carries) {
          open[i] = pending[level][i] + open[i];
        } else {
          pending[level][i] = open[i];
        }
      }
    }
    ++groups;
    in_group = 0;
  };

  Values next;
  if (counter.pieces > 0) load_piece(0, next);
  for (int piece = 0; piece < counter.pieces; ++piece) {
    if (in_group == 0) {
#pragma unroll
      for (int i = 0; i < kElements; ++i) open[i] = next[i];
    } else {
      AddTo(open, next);
    }
    if (piece + 1 < counter.pieces) load_piece(piece + 1, next);
    if (++in_group == counter.group) close_group();
  }

  if (counter.total != nullptr) {
    if (in_group != 0) close_group();
    // From the right: the lowest level is the last.
    bool any = false;
    Values sum = {};
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      if ((groups >> level & 1) == 0) continue;
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        sum[i] = any ? pending[level][i] + sum[i] : pending[level][i];
      }
      any = true;
    }
    if (counter.total_is_bfloat16) {
      StoreFloats(sum, first, counter.elements, counter.vector,
                  static_cast<bfloat16*>(counter.total));
    } else {
      StoreFloats(sum, first, counter.elements, counter.vector, static_cast<float*>(counter.total));
    }
    return;
  }
#pragma unroll
  for (int level = 0; level < kLevels; ++level) {
    if (counter.after[level] != nullptr) {
      StoreFloats(pending[level], first, counter.elements, counter.vector, counter.after[level]);
    }
  }
  if (counter.open_after != nullptr) {
    StoreFloats(open, first, counter.elements, counter.vector, counter.open_after);
  }
}

template <int kLevels, int kPieces>
absl::Status Accumulate(Lane& lane, const AccumulateArguments& arguments, int64_t elements) {
  Counter<kLevels> counter;
  counter.groups_before = arguments.leaves_before / arguments.group;
  counter.group = arguments.group;
  counter.in_group_before = arguments.leaves_before % arguments.group;
  counter.pieces = static_cast<int>(arguments.pieces.size());
  counter.elements = elements;
  counter.vector = true;
  const auto pointer_of = [&](const Tensor& tensor) {
    counter.vector = counter.vector && IsAligned(tensor.data);
    return tensor.data;
  };
  for (const Slot& slot : arguments.slots_before) {
    (slot.level == kOpenGroup ? counter.open_before : counter.before[slot.level]) =
        static_cast<const float*>(pointer_of(slot.sum));
  }
  for (const Slot& slot : arguments.slots_after) {
    (slot.level == kOpenGroup ? counter.open_after : counter.after[slot.level]) =
        static_cast<float*>(pointer_of(slot.sum));
  }
  if (arguments.total != nullptr) {
    counter.total = pointer_of(*arguments.total);
    counter.total_is_bfloat16 = arguments.total->dtype == DType::kBFloat16;
  }
  Pieces<kPieces> pieces = {};
  const DType dtype = arguments.pieces.empty() ? DType::kFloat32 : arguments.pieces[0].dtype;
  for (int i = 0; i < counter.pieces; ++i) {
    TESSERA_CHECK(arguments.pieces[i].dtype == dtype, "pieces differ in dtype");
    pieces.data[i] = pointer_of(arguments.pieces[i]);
  }
  return WithFloatType(dtype, [&](auto type) {
    return TESSERA_LAUNCH(lane, (AccumulateKernel<kLevels, kPieces, decltype(type)>),
                          CeilDivide(elements, kThreads * kElements), kThreads, 0, counter, pieces);
  });
}

}  // namespace

absl::Status AccumulateOrdered(Lane& lane, const AccumulateArguments& arguments) {
  const int64_t elements = CheckedElements(arguments);
  const auto pieces = static_cast<int64_t>(arguments.pieces.size());
  const int64_t groups = CeilDivide(arguments.leaves_before + pieces, arguments.group);
  const int levels = std::bit_width(static_cast<uint64_t>(groups));
  if (levels <= 8 && pieces <= 64) return Accumulate<8, 64>(lane, arguments, elements);
  if (levels <= kManyLevels && pieces <= kManyPieces) {
    return Accumulate<kManyLevels, kManyPieces>(lane, arguments, elements);
  }
  return absl::UnimplementedError(absl::StrCat("a sum of ", pieces, " pieces at once, of ", groups,
                                               " groups: on a GPU at most ", kManyPieces, " and 2^",
                                               kManyLevels));
}

}  // namespace tessera::kernels::cuda
