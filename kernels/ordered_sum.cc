#include "kernels/ordered_sum.h"

#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(AccumulateOrdered);

absl::Status AccumulateOrdered(Lane& lane, const AccumulateArguments& arguments) {
  TESSERA_DISPATCH(AccumulateOrdered, lane, arguments);
}

}  // namespace tessera::kernels
