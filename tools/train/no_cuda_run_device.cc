#include "tools/train/cuda_run_device.h"

namespace tessera {
namespace {

absl::Status BuiltWithout() {
  return absl::UnimplementedError(
      "this program was built without CUDA: build it with --config=cuda, or use --device cpu");
}

}  // namespace

absl::Status CheckCuda() { return BuiltWithout(); }

absl::Status CheckCudaWorld(Communicator& /*communicator*/) { return BuiltWithout(); }

absl::StatusOr<RunDevice> MakeCudaRunDevice(int /*threads*/, Communicator& /*communicator*/) {
  return BuiltWithout();
}

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int /*threads*/) { return BuiltWithout(); }

}  // namespace tessera
