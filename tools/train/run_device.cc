#include "tools/train/run_device.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/cpu_device.h"
#include "core/status.h"
#include "sharding/plan.h"
#include "tools/train/cuda_run_device.h"

namespace tessera {

absl::StatusOr<DeviceChoice> ParseDeviceChoice(const std::string& text) {
  if (text == "auto") return DeviceChoice::kAuto;
  if (text == "cpu") return DeviceChoice::kCpu;
  if (text == "cuda") return DeviceChoice::kCuda;
  return absl::InvalidArgumentError(
      absl::StrCat("--device is ", text, "; expected auto, cpu or cuda"));
}

Backend MostOf(DeviceChoice choice) {
  return choice == DeviceChoice::kCpu || !kBuiltWithCuda ? Backend::kCpu : Backend::kCuda;
}

absl::Status BuiltWithoutCuda() {
  return absl::UnimplementedError(
      "this program was built without CUDA: build it with --config=cuda, or use --device cpu");
}

absl::StatusOr<Backend> ChooseBackend(DeviceChoice choice, Communicator& communicator,
                                      std::string* why) {
  if (choice == DeviceChoice::kCpu) return Backend::kCpu;
  absl::Status usable = CheckCuda();
  if (choice == DeviceChoice::kCuda) {
    TESSERA_RETURN_IF_ERROR(usable);
    return Backend::kCuda;
  }
  int64_t able = usable.ok() ? 1 : 0;
  TESSERA_RETURN_IF_ERROR(communicator.AllReduceSum(absl::MakeSpan(&able, 1)));
  if (able == communicator.size()) {
    usable = CheckCudaWorld(communicator);
    if (usable.ok()) return Backend::kCuda;
    if (!absl::IsInvalidArgument(usable)) return usable;
  }
  if (why != nullptr && !absl::IsUnimplemented(usable)) {
    *why = usable.ok() ? "some ranks have no GPU" : std::string(usable.message());
  }
  return Backend::kCpu;
}

absl::StatusOr<RunDevice> MakeRunDevice(Backend backend, int threads, Communicator& communicator) {
  if (backend == Backend::kCuda) return MakeCudaRunDevice(threads, communicator);
  RunDevice run;
  TESSERA_ASSIGN_OR_RETURN(run.device, MakeDevice(backend, threads));
  run.collectives = std::make_unique<HostCollectives>(communicator);
  run.name = absl::StrCat(threads, threads == 1 ? " thread" : " threads");
  return run;
}

absl::StatusOr<std::unique_ptr<Device>> MakeDevice(Backend backend, int threads) {
  if (backend == Backend::kCuda) return MakeCudaDevice(threads);
  return std::make_unique<CpuDevice>(CpuDeviceOptions{kLanes, threads, 0});
}

}  // namespace tessera
