#ifndef TESSERA_TOOLS_TRAIN_RUN_DEVICE_H_
#define TESSERA_TOOLS_TRAIN_RUN_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/collectives.h"
#include "core/communicator.h"
#include "core/device.h"

namespace tessera {

// What `--device` takes.
enum class DeviceChoice : uint8_t { kAuto, kCpu, kCuda };
absl::StatusOr<DeviceChoice> ParseDeviceChoice(const std::string& text);

// The backend that takes the most memory of those that the choice may come to in this
// program, found without touching CUDA.
Backend MostOf(DeviceChoice choice);
// Unimplemented: what a program that was built without CUDA says when it is asked for.
absl::Status BuiltWithoutCuda();

// The device on which a rank of a training run works, and how it reaches the others.
struct RunDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<Collectives> collectives;  // goes before the device
  std::string name;                          // "4 threads", "NVIDIA H100"
  // How much of the device's own memory is free at present; null if it has none.
  std::function<absl::StatusOr<int64_t>()> free_bytes;
};

// Which backend a run takes here: kAuto is CUDA where every rank has a GPU, else the
// CPU. Every rank of `communicator` calls this. `why`, if not null, gets the reason
// why kAuto took the CPU in a program that was built with CUDA. Unavailable or
// Unimplemented, saying why, if kCuda was chosen and this rank cannot.
absl::StatusOr<Backend> ChooseBackend(DeviceChoice choice, Communicator& communicator,
                                      std::string* why);

// Every rank of `communicator`, which must outlive the result, calls this. On the
// CPU, `threads` compute; on CUDA, each rank of a machine takes a GPU of its own.
absl::StatusOr<RunDevice> MakeRunDevice(Backend backend, int threads, Communicator& communicator);

// The device alone, for work that needs no other rank.
absl::StatusOr<std::unique_ptr<Device>> MakeDevice(Backend backend, int threads);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RUN_DEVICE_H_
