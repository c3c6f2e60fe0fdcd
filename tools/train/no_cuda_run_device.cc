#include "tools/train/cuda_run_device.h"

namespace tessera {

const bool kBuiltWithCuda = false;

absl::Status CheckCuda() { return BuiltWithoutCuda(); }

absl::Status CheckCudaWorld(Communicator& /*communicator*/) { return BuiltWithoutCuda(); }

absl::StatusOr<RunDevice> MakeCudaRunDevice(int /*threads*/, Communicator& /*communicator*/) {
  return BuiltWithoutCuda();
}

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int /*threads*/) {
  return BuiltWithoutCuda();
}

}  // namespace tessera
