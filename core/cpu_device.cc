#include "core/cpu_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/available_memory.h"
#include "core/philox.h"
#include "core/status.h"

namespace tessera {

// An event is a place in a lane: it has come once the lane has done that much.
struct CpuDevice::CpuEvent final : Event {
  CpuLane* lane = nullptr;
  int64_t position = 0;
};

class CpuDevice::CpuLane final : public Lane {
 public:
  CpuLane(CpuDevice& device, int index)
      : device_(device), index_(index), thread_([this] { Run(); }) {}

  // All lanes must be idle: another one may still read this one's position.
  ~CpuLane() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    arrival_.notify_one();
    thread_.join();
  }

  Backend backend() const override { return Backend::kCpu; }

  void Enqueue(std::function<absl::Status()> work) override {
    Push({.work = std::move(work), .awaited = nullptr, .position = 0});
  }

  void EnqueueHost(std::function<absl::Status()> work) override { Enqueue(std::move(work)); }

  void Record(Event& event) override {
    auto& own = static_cast<CpuEvent&>(event);
    const std::lock_guard lock(mutex_);
    own.lane = this;
    own.position = enqueued_;
  }

  void Wait(Event& event) override {
    const auto& other = static_cast<const CpuEvent&>(event);
    if (other.lane == nullptr || other.lane == this) return;
    Push({.work = {}, .awaited = other.lane, .position = other.position});
  }

  void Stamp(double* seconds) override {
    Push({.work = {}, .awaited = nullptr, .position = 0, .stamp = seconds});
  }

  ThreadPool& pool() override { return index_ == 0 ? device_.pool_ : device_.own_thread_; }

  void WaitUntilEmpty() {
    std::unique_lock lock(mutex_);
    progress_.wait(lock, [&] { return done_ == enqueued_; });
  }

 private:
  struct Item {
    std::function<absl::Status()> work;  // empty for a wait or a stamp
    CpuLane* awaited;
    int64_t position;
    double* stamp = nullptr;
  };

  void Push(Item item) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(item));
      ++enqueued_;
    }
    arrival_.notify_one();
  }

  void WaitUntilDone(int64_t position) {
    std::unique_lock lock(mutex_);
    progress_.wait(lock, [&] { return done_ >= position; });
  }

  void Run() {
    for (int64_t number = 0;; ++number) {
      Item item;
      {
        std::unique_lock lock(mutex_);
        arrival_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        item = std::move(queue_.front());
        queue_.pop_front();
      }
      if (device_.options_.jitter_seed != 0) SleepSometimes(number);
      Perform(item);
      item.work = nullptr;  // what it captured ends before anybody hears that it is done
      {
        const std::lock_guard lock(mutex_);
        ++done_;
      }
      progress_.notify_all();
    }
  }

  void Perform(const Item& item) {
    if (item.awaited != nullptr) {
      item.awaited->WaitUntilDone(item.position);
    } else if (item.stamp != nullptr) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      *item.stamp = std::chrono::duration<double>(now).count();
    } else if (!device_.failed_) {
      if (const absl::Status status = item.work(); !status.ok()) device_.Fail(status);
    }
  }

  void SleepSometimes(int64_t number) const {
    const auto words = Philox(device_.options_.jitter_seed,
                              {static_cast<uint32_t>(number), static_cast<uint32_t>(index_), 0, 0});
    if (words[0] % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(words[1] % 300));
  }

  CpuDevice& device_;
  const int index_;

  std::mutex mutex_;  // guards the fields below
  std::condition_variable arrival_;
  std::condition_variable progress_;
  std::deque<Item> queue_;
  int64_t enqueued_ = 0;
  int64_t done_ = 0;
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

CpuDevice::CpuDevice(const CpuDeviceOptions& options) : options_(options), pool_(options.threads) {
  for (int index = 0; index < options.lanes; ++index) {
    lanes_.push_back(std::make_unique<CpuLane>(*this, index));
  }
}

CpuDevice::~CpuDevice() { Join().IgnoreError(); }

namespace {

absl::Status OutOfMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot allocate ", bytes, " bytes of host memory: ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::byte*> CpuDevice::Allocate(MemoryKind /*kind*/, int64_t bytes) {
  TESSERA_CHECK(bytes >= 0, absl::StrCat(bytes, " bytes"));
  // The system would rather kill some process than refuse.
  if (const int64_t available = AvailableMemory(); bytes > available) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot allocate ", bytes, " bytes of host memory, of which ", available,
                     " are available; end what else takes memory, lower memory.device or "
                     "memory.host to what there is, or start fewer ranks here"));
  }
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return OutOfMemory(bytes);
  madvise(data, size, MADV_HUGEPAGE);  // fewer TLB misses where the system has them
  // Populated, so that a page that cannot be had shows now and not in a step.
  if (madvise(data, size, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL) {  // which a kernel before 5.14 says
      const absl::Status status = OutOfMemory(bytes);
      munmap(data, size);
      return status;
    }
    std::memset(data, 0, size);
  }
  memory_.emplace_back(static_cast<std::byte*>(data), Unmap{size});
  return memory_.back().get();
}

void CpuDevice::Unmap::operator()(std::byte* data) const { munmap(data, bytes); }

absl::Status CpuDevice::CopyToHost(const std::byte* device, void* host, int64_t bytes) {
  if (bytes > 0) std::memcpy(host, device, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

absl::Status CpuDevice::CopyFromHost(const void* host, std::byte* device, int64_t bytes) {
  if (bytes > 0) std::memcpy(device, host, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

std::unique_ptr<Event> CpuDevice::CreateEvent() { return std::make_unique<CpuEvent>(); }

Lane& CpuDevice::lane(int index) { return *lanes_[index]; }

void CpuDevice::OnFailure(std::function<void(const absl::Status&)> callback) {
  const std::lock_guard lock(failure_mutex_);
  on_failure_ = std::move(callback);
}

absl::Status CpuDevice::Join() {
  for (const auto& lane : lanes_) lane->WaitUntilEmpty();
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void CpuDevice::Fail(const absl::Status& status) {
  std::function<void(const absl::Status&)> callback;
  {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    failed_ = true;
    callback = on_failure_;
  }
  if (callback) callback(status);
}

}  // namespace tessera
