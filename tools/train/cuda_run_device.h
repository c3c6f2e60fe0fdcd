#ifndef TESSERA_TOOLS_TRAIN_CUDA_RUN_DEVICE_H_
#define TESSERA_TOOLS_TRAIN_CUDA_RUN_DEVICE_H_

#include "tools/train/run_device.h"

namespace tessera {

// MakeRunDevice and MakeDevice for CUDA; whether this rank could use it; and, if all
// ranks could, whether each has a GPU of its own. In a program that was built without
// CUDA they return BuiltWithoutCuda().
extern const bool kBuiltWithCuda;
absl::Status CheckCuda();
absl::Status CheckCudaWorld(Communicator& communicator);
absl::StatusOr<RunDevice> MakeCudaRunDevice(int threads, Communicator& communicator);
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int threads);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_CUDA_RUN_DEVICE_H_
