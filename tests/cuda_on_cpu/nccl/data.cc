#include "tests/cuda_on_cpu/nccl/data.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/dtype.h"
#include "tests/cuda_on_cpu/random.h"
#include "tests/cuda_on_cpu/report.h"
#include "tests/cuda_on_cpu/sanitizer_hooks.h"

namespace tessera::cuda_on_cpu {
namespace {

// NCCL's integers wrap around.
template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <typename T>
T Combine(T a, T b, ncclRedOp_t operation) {
  switch (operation) {
    case ncclSum:
      return Sum(a, b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      Report("NCCL's double knows no reduction %d", static_cast<int>(operation));
  }
}

template <>
BFloat16 Combine(BFloat16 a, BFloat16 b, ncclRedOp_t operation) {
  return BFloat16(Combine(static_cast<float>(a), static_cast<float>(b), operation));
}

template <typename T>
std::vector<char> ReduceAs(const std::vector<const void*>& sources, size_t count,
                           ncclRedOp_t operation) {
  std::vector<char> result(count * sizeof(T));
  T* out = reinterpret_cast<T*>(result.data());
  const size_t first = RandomBelow(static_cast<uint32_t>(sources.size()));
  for (size_t i = 0; i < sources.size(); ++i) {
    const T* source = static_cast<const T*>(sources[(first + i) % sources.size()]);
    TsanRead(source, count * sizeof(T));
    for (size_t j = 0; j < count; ++j) {
      out[j] = i == 0 ? source[j] : Combine<T>(out[j], source[j], operation);
    }
  }
  return result;
}

}  // namespace

size_t ElementBytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      Report("NCCL's double knows no type %d", static_cast<int>(type));
  }
}

std::vector<char> Reduce(const std::vector<const void*>& sources, size_t count, ncclDataType_t type,
                         ncclRedOp_t operation) {
  switch (type) {
    case ncclInt32:
      return ReduceAs<int32_t>(sources, count, operation);
    case ncclInt64:
      return ReduceAs<int64_t>(sources, count, operation);
    case ncclUint64:
      return ReduceAs<uint64_t>(sources, count, operation);
    case ncclFloat32:
      return ReduceAs<float>(sources, count, operation);
    case ncclFloat64:
      return ReduceAs<double>(sources, count, operation);
    case ncclBfloat16:
      return ReduceAs<BFloat16>(sources, count, operation);
    default:
      Report("NCCL's double reduces no type %d", static_cast<int>(type));
  }
}

}  // namespace tessera::cuda_on_cpu
