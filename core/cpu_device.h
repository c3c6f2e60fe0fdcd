#ifndef TESSERA_CORE_CPU_DEVICE_H_
#define TESSERA_CORE_CPU_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device.h"
#include "core/host_lane.h"

namespace tessera {

struct CpuDeviceOptions {
  int lanes = 1;
  int threads = 1;  // of lane 0's pool; the other lanes run their kernels themselves
  // Not 0: before some of the work a lane sleeps for up to 300 us, which makes a
  // forgotten Wait show.
  uint64_t jitter_seed = 0;
};

// The host as a device: each lane is a thread, so work really is asynchronous.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuDeviceOptions& options);
  // Waits until every lane is empty.
  ~CpuDevice() override;

  Backend backend() const override { return Backend::kCpu; }
  absl::StatusOr<std::byte*> Allocate(MemoryKind kind, int64_t bytes) override;
  absl::Status CopyToHost(const std::byte* device, void* host, int64_t bytes) override;
  absl::Status CopyFromHost(const void* host, std::byte* device, int64_t bytes) override;
  std::unique_ptr<Event> CreateEvent() override;
  Lane& lane(int index) override;
  int lanes() const override { return static_cast<int>(lanes_.size()); }
  Lane& host_lane() override { return host_lane_; }
  void UseLibraryWorkspace(std::byte* /*workspace*/) override {}
  void OnFailure(std::function<void(const absl::Status&)> callback) override;
  absl::Status Join() override;

 private:
  class CpuLane;
  struct CpuEvent;
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* data) const;
  };

  // The first call wins.
  void Fail(const absl::Status& status);

  const CpuDeviceOptions options_;
  ThreadPool pool_;
  ThreadPool own_thread_{1};
  HostLane host_lane_{pool_};

  std::atomic<bool> failed_ = false;
  std::mutex failure_mutex_;
  absl::Status failure_;                                 // guarded by failure_mutex_
  std::function<void(const absl::Status&)> on_failure_;  // guarded by failure_mutex_

  std::vector<std::unique_ptr<std::byte, Unmap>> memory_;
  std::vector<std::unique_ptr<CpuLane>> lanes_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_CPU_DEVICE_H_
