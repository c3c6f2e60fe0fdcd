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

// What executes a device's kernels.
enum class Backend : uint8_t { kCpu, kCuda };

// What libraries want of a device's memory while lane 0 computes. It is one figure per
// backend, so that a plan that was made elsewhere is valid; for CUDA it is what NVIDIA
// recommends for cuBLAS on an H100.
constexpr int64_t LibraryWorkspaceBytes(Backend backend) {
  return backend == Backend::kCuda ? int64_t{32} << 20 : 0;
}

// Where memory lies. Host memory is what host work reads and writes; kernels and
// collectives reach it too, slower, at the same address.
enum class MemoryKind : uint8_t { kDevice, kHost };

// A point in a lane that other lanes can wait for. Reusable: each Record starts
// a new use, and a Wait is for the latest Record that was enqueued before it.
class Event {
 public:
  virtual ~Event() = default;
};

// An in-order queue of work on a device. Enqueueing returns at once; only one
// thread may enqueue on a device at a time.
//
// Work that was enqueued may call kernels and collectives on this lane, and must
// not itself look at memory of the device: on a GPU it only *issues* them, when it
// is enqueued, and they run in a stream. Work that looks at memory is host work,
// and all of it that it looks at is MemoryKind::kHost.
class Lane {
 public:
  virtual ~Lane() = default;

  virtual Backend backend() const = 0;

  // Runs, or issues, `work` after all that was enqueued before. Once any work of
  // the device has failed, later work is skipped (events still complete), and Join
  // reports the first failure.
  virtual void Enqueue(std::function<absl::Status()> work) = 0;

  // Runs `work` on a thread of the host, once all that was enqueued before is
  // done; what is enqueued later waits for it. It must not call collectives, and
  // kernels with Device::host_lane() alone. Failures as above.
  virtual void EnqueueHost(std::function<absl::Status()> work) = 0;

  virtual void Record(Event& event) = 0;
  virtual void Wait(Event& event) = 0;

  // Has *seconds be set to the time at which the lane gets here, on a clock of the
  // device's; it is valid once Join has returned. `seconds` must stay valid for as
  // long as the device does.
  virtual void Stamp(double* seconds) = 0;

  // Threads of the host on which a kernel of the CPU that was given this lane may
  // spread its tiles.
  virtual ThreadPool& pool() = 0;
};

// Memory and lanes of one rank.
class Device {
 public:
  virtual ~Device() = default;

  virtual Backend backend() const = 0;

  // Zeroed memory, 4096-aligned (256 if it is a GPU's own), owned by the device until it is
  // destroyed. ResourceExhausted when there is not enough.
  virtual absl::StatusOr<std::byte*> Allocate(MemoryKind kind, int64_t bytes) = 0;

  // Copies between ordinary memory of the host and memory of the device, of either
  // kind. All lanes must be idle; done on return.
  virtual absl::Status CopyToHost(const std::byte* device, void* host, int64_t bytes) = 0;
  virtual absl::Status CopyFromHost(const void* host, std::byte* device, int64_t bytes) = 0;

  virtual std::unique_ptr<Event> CreateEvent() = 0;

  // 0 <= index < lanes().
  virtual Lane& lane(int index) = 0;
  virtual int lanes() const = 0;

  // With which host work calls kernels, on MemoryKind::kHost: several at once may.
  virtual Lane& host_lane() = 0;

  // Gives libraries LibraryWorkspaceBytes(backend()) of the device's memory, before any
  // work.
  virtual void UseLibraryWorkspace(std::byte* workspace) = 0;

  // Called once, from the lane where it happened, with the first failure.
  virtual void OnFailure(std::function<void(const absl::Status&)> callback) = 0;

  // Waits until every lane is empty; the first failure since the device was made.
  virtual absl::Status Join() = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_DEVICE_H_
