#ifndef TESSERA_TESTS_SUPPORT_COUNTING_DEVICE_H_
#define TESSERA_TESTS_SUPPORT_COUNTING_DEVICE_H_

#include <array>
#include <functional>
#include <memory>

#include "core/device.h"

namespace tessera::testing {

// Counts what is allocated on a device.
class CountingDevice final : public Device {
 public:
  // `device` must outlive it.
  explicit CountingDevice(Device& device) : device_(device) {}

  int64_t allocations() const { return allocations_; }
  int64_t allocated_bytes(MemoryKind kind) const {
    return allocated_bytes_[static_cast<size_t>(kind)];
  }

  Backend backend() const override { return device_.backend(); }
  absl::StatusOr<std::byte*> Allocate(MemoryKind kind, int64_t bytes) override {
    ++allocations_;
    allocated_bytes_[static_cast<size_t>(kind)] += bytes;
    return device_.Allocate(kind, bytes);
  }
  absl::Status CopyToHost(const std::byte* device, void* host, int64_t bytes) override {
    return device_.CopyToHost(device, host, bytes);
  }
  absl::Status CopyFromHost(const void* host, std::byte* device, int64_t bytes) override {
    return device_.CopyFromHost(host, device, bytes);
  }
  std::unique_ptr<Event> CreateEvent() override { return device_.CreateEvent(); }
  Lane& lane(int index) override { return device_.lane(index); }
  int lanes() const override { return device_.lanes(); }
  Lane& host_lane() override { return device_.host_lane(); }
  void UseLibraryWorkspace(std::byte* workspace) override {
    device_.UseLibraryWorkspace(workspace);
  }
  void OnFailure(std::function<void(const absl::Status&)> callback) override {
    device_.OnFailure(std::move(callback));
  }
  absl::Status Join() override { return device_.Join(); }

 private:
  Device& device_;
  int64_t allocations_ = 0;
  std::array<int64_t, 2> allocated_bytes_ = {};
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SUPPORT_COUNTING_DEVICE_H_
