#include "core/status.h"
#include "tools/bench/ceilings.h"

namespace tessera {

const bool kBuiltWithOneDnn = false;

struct OneDnnProducts::Prepared {};

OneDnnProducts::OneDnnProducts(absl::Span<const Product> /*products*/, DType /*dtype*/,
                               int /*threads*/) {
  TESSERA_CHECK(kBuiltWithOneDnn, "there is no oneDNN");
}

OneDnnProducts::~OneDnnProducts() = default;

double OneDnnProducts::Seconds() { return 0; }

}  // namespace tessera
