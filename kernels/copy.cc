#include "kernels/copy.h"

#include "core/status.h"
#include "kernels/dispatch.h"

namespace tessera::kernels {

TESSERA_DECLARE_BACKENDS(Copy);

absl::Status Copy(Lane& lane, const std::byte* from, std::byte* to, int64_t bytes) {
  TESSERA_CHECK(bytes >= 0 && (from + bytes <= to || to + bytes <= from), "a copy onto itself");
  TESSERA_DISPATCH(Copy, lane, from, to, bytes);
}

}  // namespace tessera::kernels
