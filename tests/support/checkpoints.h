#ifndef TESSERA_TESTS_SUPPORT_CHECKPOINTS_H_
#define TESSERA_TESTS_SUPPORT_CHECKPOINTS_H_

#include <string>

#include "tests/support/training.h"

namespace tessera::testing {

// For RunOptions::before: loads the checkpoint at `path`.
std::function<absl::Status(Trainer&, Communicator&)> LoadFrom(const std::string& path);

// For RunOptions::after: saves to `folder`, and waits for it. The plan needs a snapshot.
std::function<absl::Status(Trainer&, Communicator&)> SaveTo(const std::string& folder);

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SUPPORT_CHECKPOINTS_H_
