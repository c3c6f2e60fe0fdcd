#ifndef TESSERA_CORE_DEVICE_H_
#define TESSERA_CORE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/thread_pool.h"

namespace tessera {

// A point in a lane that other lanes can wait for. Reusable: each Record starts
// a new use, and a Wait is for the latest Record that was enqueued before it.
class Event {
 public:
  virtual ~Event() = default;
};

// An in-order queue of work on a device. Enqueueing returns at once; only one
// thread may enqueue on a device at a time.
class Lane {
 public:
  virtual ~Lane() = default;

  // Runs `work` after all that was enqueued before. Once any work of the device
  // has failed, later work is skipped (events still complete), and Join reports
  // the first failure.
  virtual void Enqueue(std::function<absl::Status()> work) = 0;

  virtual void Record(Event& event) = 0;
  virtual void Wait(Event& event) = 0;

  // The threads on which a kernel that was given this lane may spread its tiles.
  virtual ThreadPool& pool() = 0;
};

// Memory and lanes of one rank.
class Device {
 public:
  virtual ~Device() = default;

  // Zeroed memory, 4096-aligned, owned by the device until it is destroyed.
  // ResourceExhausted when there is not enough.
  virtual absl::StatusOr<std::byte*> Allocate(int64_t bytes) = 0;

  virtual std::unique_ptr<Event> CreateEvent() = 0;

  // 0 <= index < lanes().
  virtual Lane& lane(int index) = 0;
  virtual int lanes() const = 0;

  // Called once, from the lane where it happened, with the first failure.
  virtual void OnFailure(std::function<void(const absl::Status&)> callback) = 0;

  // Waits until every lane is empty; the first failure since the device was made.
  virtual absl::Status Join() = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_DEVICE_H_
