#include "tests/support/checkpoints.h"

#include <memory>

#include "core/status.h"
#include "sharding/checkpoint/checkpoint_reader.h"
#include "sharding/checkpoint/checkpointer.h"
#include "sharding/checkpoint/load.h"

namespace tessera::testing {

std::function<absl::Status(Trainer&, Communicator&)> LoadFrom(const std::string& path) {
  return [path](Trainer& trainer, Communicator&) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const CheckpointReader reader, CheckpointReader::Open(path));
    return Load(reader, trainer);
  };
}

std::function<absl::Status(Trainer&, Communicator&)> SaveTo(const std::string& folder) {
  return [folder](Trainer& trainer, Communicator& communicator) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpointer> checkpointer,
                             Checkpointer::Create({.folder = folder}, trainer, communicator));
    TESSERA_RETURN_IF_ERROR(checkpointer->Begin());
    TESSERA_ASSIGN_OR_RETURN(const Checkpointer::Outcome saved, checkpointer->Wait());
    return saved.status;
  };
}

}  // namespace tessera::testing
