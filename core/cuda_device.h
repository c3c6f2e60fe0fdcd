#ifndef TESSERA_CORE_CUDA_DEVICE_H_
#define TESSERA_CORE_CUDA_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/cuda_lane.h"
#include "core/device.h"
#include "core/host_lane.h"

namespace tessera {

// Where a GPU is in this machine, without taking anything of it.
absl::StatusOr<std::string> CudaBusId(int index);

struct CudaDeviceOptions {
  int index = 0;  // among the visible GPUs
  int lanes = 1;
  int threads = 1;  // of the host, for work that is done there before step 0
};

// How many GPUs this process may use. Unavailable, saying what to do, where there is
// no driver, too old a driver, or no GPU.
absl::StatusOr<int> CountCudaDevices();

// A GPU: lanes are streams, events are events, and nothing synchronises the device
// between two Joins.
class CudaDevice final : public Device {
 public:
  // The errors of CountCudaDevices; FailedPrecondition for a GPU that the program
  // was not built for.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(const CudaDeviceOptions& options);
  // Waits until every lane is empty.
  ~CudaDevice() override;

  Backend backend() const override { return Backend::kCuda; }
  absl::StatusOr<std::byte*> Allocate(MemoryKind kind, int64_t bytes) override;
  absl::Status CopyToHost(const std::byte* device, void* host, int64_t bytes) override;
  absl::Status CopyFromHost(const void* host, std::byte* device, int64_t bytes) override;
  std::unique_ptr<Event> CreateEvent() override;
  Lane& lane(int index) override;
  int lanes() const override { return static_cast<int>(streams_.size()); }
  Lane& host_lane() override { return host_lane_; }
  void UseLibraryWorkspace(std::byte* workspace) override { library_workspace_ = workspace; }
  void OnFailure(std::function<void(const absl::Status&)> callback) override;
  absl::Status Join() override;

  // Ends the device's usefulness: later work is skipped, Join reports it. The first
  // call wins. Callable from any thread.
  void Fail(const absl::Status& status);

  // Has every Join end with `confirm`, one for each owner, whose failure is the device's:
  // streams also run empty when what they ran was given up. Null for none.
  void ConfirmWith(const void* owner, std::function<absl::Status()> confirm);

  // Makes this GPU the calling thread's: CUDA's calls are about the current one.
  void Activate() const;

  // "NVIDIA H100 80GB HBM3".
  const std::string& name() const { return name_; }
  // Where it is in this machine: two ranks with the same one share a GPU.
  const std::string& bus_id() const { return bus_id_; }
  // Of the GPU, as far as nobody has taken it.
  absl::StatusOr<int64_t> FreeBytes() const;

 private:
  class Stream;
  struct CudaEvent;
  struct Memory {
    MemoryKind kind;
    std::byte* data;
  };

  explicit CudaDevice(const CudaDeviceOptions& options);
  absl::Status Initialize();
  void FailIf(cudaError_t error, const char* call);
  absl::Status WaitForStreams();
  absl::Status ReadStamps();
  absl::Status CheckFault();

  const CudaDeviceOptions options_;
  std::string name_;
  std::string bus_id_;
  ThreadPool pool_;
  HostLane host_lane_{pool_};
  std::vector<Memory> memory_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::byte* library_workspace_ = nullptr;
  CudaFault* fault_ = nullptr;

  // Where times go, and since when they count: the first stamp after a Join.
  std::map<double*, cudaEvent_t> stamps_;
  std::vector<double*> stamped_;
  cudaEvent_t origin_ = nullptr;

  std::vector<std::pair<const void*, std::function<absl::Status()>>> confirm_;  // by owner

  std::atomic<bool> failed_ = false;
  std::mutex failure_mutex_;
  absl::Status failure_;                                 // guarded by failure_mutex_
  std::function<void(const absl::Status&)> on_failure_;  // guarded by failure_mutex_
};

}  // namespace tessera

#endif  // TESSERA_CORE_CUDA_DEVICE_H_
