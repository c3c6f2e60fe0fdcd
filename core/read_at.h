#ifndef TESSERA_CORE_READ_AT_H_
#define TESSERA_CORE_READ_AT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace tessera {

// Reads bytes [offset, offset + bytes) of an open file into `to`. Returns how many there
// were: fewer only where the file ends. Errors name `path` and the offset. Thread-safe.
absl::StatusOr<int64_t> ReadAt(const std::string& path, int descriptor, int64_t offset,
                               int64_t bytes, void* to);

}  // namespace tessera

#endif  // TESSERA_CORE_READ_AT_H_
