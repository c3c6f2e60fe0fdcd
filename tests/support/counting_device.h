#ifndef TESSERA_TESTS_SUPPORT_COUNTING_DEVICE_H_
#define TESSERA_TESTS_SUPPORT_COUNTING_DEVICE_H_

#include <functional>
#include <memory>

#include "core/cpu_device.h"

namespace tessera::testing {

// A CpuDevice that counts what is allocated on it.
class CountingDevice final : public Device {
 public:
  explicit CountingDevice(const CpuDeviceOptions& options) : device_(options) {}

  int64_t allocations() const { return allocations_; }
  int64_t allocated_bytes() const { return allocated_bytes_; }

  absl::StatusOr<std::byte*> Allocate(int64_t bytes) override {
    ++allocations_;
    allocated_bytes_ += bytes;
    return device_.Allocate(bytes);
  }
  std::unique_ptr<Event> CreateEvent() override { return device_.CreateEvent(); }
  Lane& lane(int index) override { return device_.lane(index); }
  int lanes() const override { return device_.lanes(); }
  void OnFailure(std::function<void(const absl::Status&)> callback) override {
    device_.OnFailure(std::move(callback));
  }
  absl::Status Join() override { return device_.Join(); }

 private:
  CpuDevice device_;
  int64_t allocations_ = 0;
  int64_t allocated_bytes_ = 0;
};

}  // namespace tessera::testing

#endif  // TESSERA_TESTS_SUPPORT_COUNTING_DEVICE_H_
