#ifndef TESSERA_SHARDING_STATE_MEMORY_H_
#define TESSERA_SHARDING_STATE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "core/device.h"
#include "sharding/executor.h"
#include "sharding/plan.h"

namespace tessera {

// A model's state between steps, wherever its parts live, as one rank holds it.
class StateMemory {
 public:
  // All arguments must outlive it; lanes must be idle whenever it is used.
  StateMemory(const Plan& plan, int rank, Device& device, const Arenas& arenas);

  // The elements of the unit that this rank holds in parts of the role: [begin, end).
  ElementRange Held(Role role, int unit) const;

  // Copies of elements [first, first + count) of a unit, each of `size` bytes, what
  // this rank holds: to or from the places in `values` that they have there. The rest
  // is left as it is. The errors of the device and of NvmeFile.
  absl::Status Load(Role role, int unit, int64_t first, int64_t count, int64_t size,
                    void* values) const;
  absl::Status Store(Role role, int unit, int64_t first, int64_t count, int64_t size,
                     const void* values) const;

 private:
  // The first element of the unit in a part.
  int64_t FirstOf(const StatePart& part) const;
  template <typename Visit>
  absl::Status ForEachOverlap(Role role, int unit, int64_t first, int64_t count, Visit visit) const;
  absl::Status LoadBytes(const Buffer& buffer, int64_t begin, int64_t bytes,
                         std::byte* values) const;
  absl::Status StoreBytes(const Buffer& buffer, int64_t begin, int64_t bytes,
                          const std::byte* values) const;

  const Plan& plan_;
  const int rank_;
  Device& device_;
  const Arenas arenas_;
  // What comes from NVMe or goes there passes through it; null if nothing does. Kept, so
  // that a long run takes it once.
  struct Free {
    void operator()(std::byte* pages) const;
  };
  const std::unique_ptr<std::byte, Free> pages_;
};

}  // namespace tessera

#endif  // TESSERA_SHARDING_STATE_MEMORY_H_
