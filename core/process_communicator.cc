#include "core/process_communicator.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/status.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// What a rank can hand over between two meetings.
constexpr int64_t kSlotBytes = int64_t{1} << 20;
constexpr int64_t kPage = 4096;
// How often a rank that waits looks whether the others live.
constexpr std::chrono::milliseconds kLook{250};

enum class Kind : int32_t { kAllGather, kAllToAll, kBroadcast, kAllReduceSum, kBarrier, kLeave };
constexpr std::array<const char*, 6> kNames = {"AllGather",    "AllToAll", "Broadcast",
                                               "AllReduceSum", "Barrier",  "the end"};

// What one rank asks for, as the others see it.
struct Request {
  Kind kind = Kind::kBarrier;
  int32_t root = 0;
  int64_t bytes = 0;

  bool operator==(const Request& other) const {
    return kind == other.kind && root == other.root && bytes == other.bytes;
  }
  std::string Describe(int rank) const {
    return absl::StrCat("rank ", rank, " called ", kNames[static_cast<size_t>(kind)], " with ",
                        bytes, " bytes and root ", root);
  }
};

enum AbortState : uint32_t { kNotAborted, kBeingWritten, kAborted };

// The beginning of the shared memory, which is zero at first.
struct Header {
  std::atomic<uint32_t> changes;  // what is waited for: one more for each meeting and abort
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> meetings;
  std::atomic<int32_t> ended;  // one more than the first rank that was seen to have ended
  std::atomic<uint32_t> abort_state;
  int32_t abort_rank;
  uint32_t abort_length;
  std::array<char, 1024> abort_text;
};

// Of a rank. What it hands over at one meeting is read until the next, while it
// writes to the other slot already.
struct Place {
  std::atomic<uint32_t> joined;
  std::array<Request, 2> requests;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free, "shared between processes");

int64_t PlacesAt() { return (sizeof(Header) + 63) / 64 * 64; }
int64_t SlotsAt(int size) {
  return (PlacesAt() + size * static_cast<int64_t>(sizeof(Place)) + kPage - 1) / kPage * kPage;
}
int64_t WorldBytes(int size) { return SlotsAt(size) + 2 * size * kSlotBytes; }

absl::Status SystemError(absl::string_view call) {
  return absl::UnavailableError(
      absl::StrCat("a world of processes: ", call, ": ", std::strerror(errno)));
}

void Copy(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// A process' lock on the byte of its rank goes with the process.
struct flock LockOf(int rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

// A collective is one meeting, or several when there is more than fits a slot. At
// a meeting every rank has filled its slot; until the next the others read it.
class ProcessCommunicator final : public Communicator {
 public:
  explicit ProcessCommunicator(const ProcessRank& rank) : self_(rank) {}
  ~ProcessCommunicator() override {
    if (memory_ == nullptr) return;
    if (Check().ok()) (void)Meet({.kind = Kind::kLeave});
    munmap(memory_, static_cast<size_t>(WorldBytes(size())));
    close(self_.world);
  }

  absl::Status Join();

  int rank() const override { return self_.rank; }
  int size() const override { return self_.size; }

  absl::Status AllGather(const std::byte* own, std::byte* out, int64_t bytes) override {
    const auto fill = [&](std::byte* slot, int64_t at, int64_t part) {
      Copy(slot, own + at, part);
    };
    const auto take = [&](int64_t at, int64_t part) {
      ForPeers([&](int peer) { Copy(out + peer * bytes + at, Slot(peer), part); });
      Copy(out + rank() * bytes + at, own + at, part);
    };
    TESSERA_RETURN_IF_ERROR(Exchange({Kind::kAllGather, 0, bytes}, kSlotBytes, fill, take));
    bytes_sent_ += (size() - 1) * bytes;
    return absl::OkStatus();
  }

  absl::Status AllToAll(const std::byte* send, int64_t stride, std::byte* out,
                        int64_t bytes) override {
    const int64_t most = kSlotBytes / size();
    const auto fill = [&](std::byte* slot, int64_t at, int64_t part) {
      ForPeers([&](int peer) { Copy(slot + peer * most, send + peer * stride + at, part); });
    };
    const auto take = [&](int64_t at, int64_t part) {
      ForPeers([&](int peer) {
        const int piece = peer < rank() ? peer : peer - 1;
        Copy(out + piece * bytes + at, Slot(peer) + rank() * most, part);
      });
    };
    TESSERA_RETURN_IF_ERROR(Exchange({Kind::kAllToAll, 0, bytes}, most, fill, take));
    bytes_sent_ += (size() - 1) * bytes;
    return absl::OkStatus();
  }

  absl::Status Broadcast(std::byte* data, int64_t bytes, int root) override {
    const auto fill = [&](std::byte* slot, int64_t at, int64_t part) {
      if (rank() == root) Copy(slot, data + at, part);
    };
    const auto take = [&](int64_t at, int64_t part) {
      if (rank() != root) Copy(data + at, Slot(root), part);
    };
    TESSERA_RETURN_IF_ERROR(Exchange({Kind::kBroadcast, root, bytes}, kSlotBytes, fill, take));
    if (rank() == root) bytes_sent_ += (size() - 1) * bytes;
    return absl::OkStatus();
  }

  absl::Status AllReduceSum(absl::Span<int64_t> values) override {
    auto* const data = reinterpret_cast<std::byte*>(values.data());
    const auto bytes = static_cast<int64_t>(values.size() * sizeof(int64_t));
    const auto fill = [&](std::byte* slot, int64_t at, int64_t part) {
      Copy(slot, data + at, part);
    };
    const auto take = [&](int64_t at, int64_t part) {
      ForPeers([&](int peer) { Add(Slot(peer), values.subspan(at / 8, part / 8)); });
    };
    TESSERA_RETURN_IF_ERROR(Exchange({Kind::kAllReduceSum, 0, bytes}, kSlotBytes, fill, take));
    bytes_sent_ += (size() - 1) * bytes;
    return absl::OkStatus();
  }

  absl::Status Barrier() override { return Meet({}); }

  void Abort(const absl::Status& status) override;
  absl::Status Check() override;

  int64_t bytes_sent() const override { return bytes_sent_; }

 private:
  static void Add(const std::byte* addends, absl::Span<int64_t> sums) {
    for (size_t i = 0; i < sums.size(); ++i) {
      uint64_t addend = 0;
      std::memcpy(&addend, addends + i * sizeof(addend), sizeof(addend));
      sums[i] = static_cast<int64_t>(static_cast<uint64_t>(sums[i]) + addend);
    }
  }

  // Each rank starts with another peer.
  template <typename Body>
  void ForPeers(Body body) const {
    for (int step = 1; step < size(); ++step) body((rank() + step) % size());
  }

  // Meets for each part of at most `most` bytes: fill(slot, at, bytes) before, then
  // take(at, bytes).
  template <typename Fill, typename Take>
  absl::Status Exchange(const Request& request, int64_t most, Fill fill, Take take) {
    int64_t at = 0;
    do {
      const int64_t part = std::min(request.bytes - at, most);
      parity_ = 1 - parity_;
      fill(Slot(rank()), at, part);
      TESSERA_RETURN_IF_ERROR(Arrive(request));
      take(at, part);
      at += part;
    } while (at < request.bytes);
    return absl::OkStatus();
  }
  absl::Status Meet(const Request& request) {
    parity_ = 1 - parity_;
    return Arrive(request);
  }

  // Waits until every rank has arrived with the same request.
  absl::Status Arrive(const Request& request);
  absl::Status WaitForMeeting(uint32_t meeting);
  absl::Status CompareRequests() const;
  // Tells everybody when a rank's process has ended: the first, since others end
  // because of it.
  void LookWhoLives();
  // Keeps the first failure.
  absl::Status Keep(const absl::Status& failure) {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = failure;
    return failure_;
  }
  // Cancelled once a rank has called Abort.
  absl::Status Aborted() const;

  void NotifyAll() const {
    header_->changes.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &header_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  // At most for kLook.
  void SleepUntilChange(uint32_t seen) const {
    const timespec timeout{0, std::chrono::nanoseconds(kLook).count()};
    syscall(SYS_futex, &header_->changes, FUTEX_WAIT, seen, &timeout, nullptr, 0);
  }

  Place& PlaceOf(int rank) const {
    return reinterpret_cast<Place*>(static_cast<std::byte*>(memory_) + PlacesAt())[rank];
  }
  // Of the meeting that comes, or was the last.
  std::byte* Slot(int rank) const {
    return static_cast<std::byte*>(memory_) + SlotsAt(size()) + (2 * rank + parity_) * kSlotBytes;
  }

  const ProcessRank self_;
  void* memory_ = nullptr;
  Header* header_ = nullptr;
  int parity_ = 0;
  std::atomic<int64_t> bytes_sent_ = 0;

  std::mutex mutex_;          // guards the following
  absl::Status failure_;      // sticky
  Clock::time_point looked_;  // of the last LookWhoLives
};

absl::Status ProcessCommunicator::Join() {
  struct stat file = {};
  if (fstat(self_.world, &file) != 0) return SystemError("fstat");
  if (rank() < 0 || rank() >= size() || file.st_size != WorldBytes(size())) {
    return absl::UnavailableError(absl::StrCat("descriptor ", self_.world,
                                               " is not that of a world of ", size(),
                                               " processes with rank ", rank()));
  }
  void* const memory = mmap(nullptr, static_cast<size_t>(file.st_size), PROT_READ | PROT_WRITE,
                            MAP_SHARED, self_.world, 0);
  if (memory == MAP_FAILED) return SystemError("mmap");
  fcntl(self_.world, F_SETFD, FD_CLOEXEC);
  struct flock lock = LockOf(rank());
  if (fcntl(self_.world, F_SETLK, &lock) != 0) {
    absl::Status status = SystemError("fcntl");
    munmap(memory, static_cast<size_t>(file.st_size));
    return status;
  }
  memory_ = memory;
  header_ = static_cast<Header*>(memory);
  PlaceOf(rank()).joined.store(1, std::memory_order_release);
  return Barrier();
}

absl::Status ProcessCommunicator::Arrive(const Request& request) {
  TESSERA_RETURN_IF_ERROR(Check());
  PlaceOf(rank()).requests[parity_] = request;
  const uint32_t meeting = header_->meetings.load(std::memory_order_acquire);
  if (header_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      static_cast<uint32_t>(size())) {
    header_->arrived.store(0, std::memory_order_relaxed);
    header_->meetings.store(meeting + 1, std::memory_order_release);
    NotifyAll();
  } else {
    TESSERA_RETURN_IF_ERROR(WaitForMeeting(meeting));
  }
  const absl::Status same = CompareRequests();
  return same.ok() ? same : Keep(same);
}

absl::Status ProcessCommunicator::WaitForMeeting(uint32_t meeting) {
  const auto has_met = [&] { return header_->meetings.load(std::memory_order_acquire) != meeting; };
  while (true) {
    const uint32_t seen = header_->changes.load(std::memory_order_acquire);
    const absl::Status fine = Check();
    // First of all, since ranks that have met may have ended.
    if (has_met()) return absl::OkStatus();
    TESSERA_RETURN_IF_ERROR(fine);
    SleepUntilChange(seen);
  }
}

absl::Status ProcessCommunicator::CompareRequests() const {
  const Request& first = PlaceOf(0).requests[parity_];
  for (int peer = 1; peer < size(); ++peer) {
    const Request& other = PlaceOf(peer).requests[parity_];
    if (other == first) continue;
    return absl::InternalError(absl::StrCat("ranks made different calls: ", first.Describe(0), ", ",
                                            other.Describe(peer)));
  }
  return absl::OkStatus();
}

void ProcessCommunicator::LookWhoLives() {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || PlaceOf(peer).joined.load(std::memory_order_acquire) == 0) continue;
    struct flock lock = LockOf(peer);
    if (fcntl(self_.world, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK) continue;
    int32_t none = 0;
    if (header_->ended.compare_exchange_strong(none, peer + 1)) NotifyAll();
    return;
  }
}

absl::Status ProcessCommunicator::Aborted() const {
  if (header_->abort_state.load(std::memory_order_acquire) != kAborted) return absl::OkStatus();
  return absl::CancelledError(
      absl::StrCat("rank ", header_->abort_rank, ": ",
                   absl::string_view(header_->abort_text.data(), header_->abort_length)));
}

absl::Status ProcessCommunicator::Check() {
  const std::lock_guard lock(mutex_);
  if (failure_.ok()) failure_ = Aborted();
  if (!failure_.ok()) return failure_;
  if (Clock::now() - looked_ >= kLook) {
    looked_ = Clock::now();
    LookWhoLives();
  }
  if (const int32_t ended = header_->ended.load(std::memory_order_acquire); ended != 0) {
    failure_ = absl::UnavailableError(absl::StrCat("rank ", ended - 1, " has ended"));
  }
  return failure_;
}

void ProcessCommunicator::Abort(const absl::Status& status) {
  uint32_t expected = kNotAborted;
  if (header_->abort_state.compare_exchange_strong(expected, kBeingWritten)) {
    const absl::string_view text = status.message().substr(0, header_->abort_text.size());
    text.copy(header_->abort_text.data(), text.size());
    header_->abort_length = static_cast<uint32_t>(text.size());
    header_->abort_rank = rank();
    header_->abort_state.store(kAborted, std::memory_order_release);
    NotifyAll();
  }
  const std::lock_guard lock(mutex_);
  if (!absl::IsCancelled(failure_)) failure_ = Aborted();
}

constexpr char kWorldVariable[] = "TESSERA_WORLD";
constexpr char kRankVariable[] = "TESSERA_RANK";
constexpr char kSizeVariable[] = "TESSERA_RANKS";

}  // namespace

absl::StatusOr<int> MakeProcessWorld(int size) {
  const int world = memfd_create("tessera", MFD_CLOEXEC);
  if (world < 0) return SystemError("memfd_create");
  if (ftruncate(world, WorldBytes(size)) != 0) {
    absl::Status status = SystemError("ftruncate");
    close(world);
    return status;
  }
  return world;
}

std::vector<std::string> ProcessRankVariables(const ProcessRank& rank) {
  return {absl::StrCat(kWorldVariable, "=", rank.world),
          absl::StrCat(kRankVariable, "=", rank.rank), absl::StrCat(kSizeVariable, "=", rank.size)};
}

std::optional<ProcessRank> ProcessRankOfEnvironment() {
  const char* const world = std::getenv(kWorldVariable);
  const char* const rank = std::getenv(kRankVariable);
  const char* const size = std::getenv(kSizeVariable);
  if (world == nullptr || rank == nullptr || size == nullptr) return std::nullopt;
  return ProcessRank{std::atoi(world), std::atoi(rank), std::atoi(size)};
}

absl::StatusOr<std::unique_ptr<Communicator>> JoinProcessWorld(const ProcessRank& rank) {
  auto communicator = std::make_unique<ProcessCommunicator>(rank);
  TESSERA_RETURN_IF_ERROR(communicator->Join());
  return communicator;
}

}  // namespace tessera
