#include "kernels/elementwise.h"

#include "core/status.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(SumContributions);
TESSERA_DECLARE_BACKENDS(Add);
TESSERA_DECLARE_BACKENDS(Convert);
TESSERA_DECLARE_BACKENDS(FillZero);
TESSERA_DECLARE_BACKENDS(Dropout);

absl::Status SumContributions(Lane& lane, absl::Span<const Tensor> contributions,
                              const Tensor& out) {
  TESSERA_CHECK(!contributions.empty(), "a sum of nothing");
  for (const Tensor& contribution : contributions) {
    TESSERA_CHECK(contribution.elements() == out.elements(), "tensors differ in size");
  }
  TESSERA_DISPATCH(SumContributions, lane, contributions, out);
}

absl::Status Add(Lane& lane, const Tensor& a, const Tensor& b, const Tensor& out) {
  TESSERA_CHECK(a.elements() == out.elements() && b.elements() == out.elements(),
                "tensors differ in size");
  TESSERA_DISPATCH(Add, lane, a, b, out);
}

absl::Status Convert(Lane& lane, const Tensor& from, const Tensor& to) {
  TESSERA_CHECK(from.elements() == to.elements(), "tensors differ in size");
  TESSERA_DISPATCH(Convert, lane, from, to);
}

absl::Status FillZero(Lane& lane, const Tensor& tensor) {
  TESSERA_DISPATCH(FillZero, lane, tensor);
}

absl::Status Dropout(Lane& lane, const Tensor& x, float probability, const RandomKey& key,
                     const Tensor& y) {
  TESSERA_CHECK(x.elements() == y.elements(), "tensors differ in size");
  TESSERA_CHECK(probability >= 0 && probability < 1, "not a dropout probability");
  TESSERA_CHECK(x.elements() < int64_t{1} << 34, "more elements than a random stream has");
  TESSERA_DISPATCH(Dropout, lane, x, probability, key, y);
}

}  // namespace tessera::kernels
