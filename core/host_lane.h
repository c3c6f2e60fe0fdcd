#ifndef TESSERA_CORE_HOST_LANE_H_
#define TESSERA_CORE_HOST_LANE_H_

#include <functional>

#include "core/device.h"
#include "core/status.h"

namespace tessera {

// What host work gives to a kernel that it calls: the kernel runs at once, on the
// host's threads. Nothing can be enqueued on it.
class HostLane final : public Lane {
 public:
  // `pool` must outlive the lane.
  explicit HostLane(ThreadPool& pool) : pool_(pool) {}

  Backend backend() const override { return Backend::kCpu; }
  ThreadPool& pool() override { return pool_; }

  void Enqueue(std::function<absl::Status()> /*work*/) override { Refuse(); }
  void EnqueueHost(std::function<absl::Status()> /*work*/) override { Refuse(); }
  void Record(Event& /*event*/) override { Refuse(); }
  void Wait(Event& /*event*/) override { Refuse(); }
  void Stamp(double* /*seconds*/) override { Refuse(); }

 private:
  static void Refuse() { TESSERA_CHECK(false, "a host lane has no queue"); }

  ThreadPool& pool_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_HOST_LANE_H_
