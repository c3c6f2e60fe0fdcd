#ifndef TESSERA_CORE_THREAD_COMMUNICATOR_H_
#define TESSERA_CORE_THREAD_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "core/communicator.h"

namespace tessera {

// A world whose ranks are threads of this process: element r is rank r's. They
// may be destroyed in any order. Different calls by two ranks are Internal, at
// every rank, from then on.
std::vector<std::unique_ptr<Communicator>> MakeThreadWorld(int size);

}  // namespace tessera

#endif  // TESSERA_CORE_THREAD_COMMUNICATOR_H_
