#ifndef TESSERA_CORE_AVAILABLE_MEMORY_H_
#define TESSERA_CORE_AVAILABLE_MEMORY_H_

#include <cstdint>

namespace tessera {

// Bytes of this machine that a process could take now without anything being swapped or
// killed, as the kernel estimates it and as far as its control group (version 2) allows;
// the largest integer if the system does not say.
int64_t AvailableMemory();

}  // namespace tessera

#endif  // TESSERA_CORE_AVAILABLE_MEMORY_H_
