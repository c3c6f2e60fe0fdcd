#include "tools/train/cuda_run_device.h"

#include "core/cuda_device.h"
#include "core/nccl_collectives.h"
#include "core/status.h"
#include "sharding/plan.h"
#include "tools/train/local_ranks.h"

namespace tessera {
namespace {

// A launcher may show each rank its own GPU alone, or all of them to every rank.
absl::StatusOr<int> OwnIndex() {
  TESSERA_ASSIGN_OR_RETURN(const int gpus, CountCudaDevices());
  return LocalRank() % gpus;
}

absl::StatusOr<std::unique_ptr<CudaDevice>> OwnGpu(int threads) {
  TESSERA_ASSIGN_OR_RETURN(const int index, OwnIndex());
  return CudaDevice::Create({.index = index, .lanes = kLanes, .threads = threads});
}

}  // namespace

const bool kBuiltWithCuda = true;

absl::Status CheckCuda() { return CountCudaDevices().status(); }

absl::Status CheckCudaWorld(Communicator& communicator) {
  TESSERA_ASSIGN_OR_RETURN(const int index, OwnIndex());
  TESSERA_ASSIGN_OR_RETURN(const std::string bus_id, CudaBusId(index));
  return CheckOneRankPerGpu(bus_id, communicator);
}

absl::StatusOr<RunDevice> MakeCudaRunDevice(int threads, Communicator& communicator) {
  TESSERA_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device, OwnGpu(threads));
  RunDevice run;
  TESSERA_ASSIGN_OR_RETURN(run.collectives, MakeNcclCollectives(*device, communicator));
  run.name = device->name();
  run.free_bytes = [own = device.get()] { return own->FreeBytes(); };
  run.device = std::move(device);
  return run;
}

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(int threads) { return OwnGpu(threads); }

}  // namespace tessera
