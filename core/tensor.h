#ifndef TESSERA_CORE_TENSOR_H_
#define TESSERA_CORE_TENSOR_H_

#include <cstdint>
#include <initializer_list>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/dtype.h"
#include "core/status.h"

namespace tessera {

using Shape = absl::InlinedVector<int64_t, 4>;

inline int64_t ElementsOf(const Shape& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  return elements;
}

// A dense row-major view of memory that somebody else owns (an arena). `data`
// may be null where a contract says that a tensor is absent.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Shape shape;

  int64_t elements() const { return ElementsOf(shape); }
  int64_t bytes() const { return elements() * SizeOf(dtype); }
  // The elements as T, which must be the tensor's dtype.
  template <typename T>
  T* as() const {
    TESSERA_CHECK(dtype == DTypeOf<T>(), absl::StrCat("tensor is ", NameOf(dtype)));
    return static_cast<T*>(data);
  }
};

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_H_
